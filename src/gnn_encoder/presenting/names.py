"""The titles of systems and branches, and of the tables and figures of the evidence."""

from gnn_encoder.pipeline.systems import title_of

# File name -> title, in the order in which they are shown.
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
    """The title of a system, or of the system that a branch is named after; any other name unchanged."""
    return title_of(system)
