"""What systems and branches, and the tables and figures of the evidence, are called where people read."""

from gnn_encoder.core.systems import registry

# By the file that holds them, in the order that they are shown in.
TITLES = {
    "ablations": "Ablations (GNN-encoder, Table 3)",
    "k": "Passages a query (GNN-encoder, Figure 3)",
    "beta": "Share of the queries masked (GNN-encoder, Figure 4)",
    "times": "Encoding times (GNN-encoder, Table 4)",
    "attention": "Attention to a passage's queries (GNN-encoder, Figure 2)",
    "attention_shares": "Mean attention with and without MGT",
    "cases": "Queries won and lost at rank 1",
}


def name_of(system: str) -> str:
    """A system's or branch's title; what has none is called as it is."""
    found = registry().systems.get(system)
    return found.title if found else system
