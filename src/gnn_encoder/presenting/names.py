"""What systems and branches, and the tables and figures of the evidence, are called where people read."""

NAMES = {
    "bm25": "BM25",
    "retriever": "first retriever (DPR)",
    "dual_encoder": "M_de",
    "no_gnn": "control without GNN",
    "gnn_encoder": "GNN-encoder",
    "pair_no_psr": "PAIR without L_P",
    "pair": "PAIR",
    "dual_cross_dpr": "DPR in two stages",
    "dual_cross": "Dual-Cross-Encoder",
    "gnn_encoder_pair": "GNN-encoder from PAIR",
    "gnn_encoder_generated": "GNN-encoder, generated questions too",
    "reranked": "M_de, reranked",
}
# By the file that holds them, in the order that they are shown in.
TITLES = {
    "ablations": "Ablations (GNN-encoder, Table 3)",
    "k": "Passages a question (GNN-encoder, Figure 3)",
    "beta": "Share of the questions masked (GNN-encoder, Figure 4)",
    "times": "Encoding times (GNN-encoder, Table 4)",
    "attention": "Attention to a passage's questions (GNN-encoder, Figure 2)",
    "attention_shares": "Mean attention with and without MGT",
    "cases": "Questions won and lost at rank 1",
}


def name_of(system: str) -> str:
    """A system's or branch's name; what has none is called as it is."""
    return NAMES.get(system, system)
