"""What the evidence's tables and pictures are called, by the file that holds them, in the order they are shown in."""

TITLES = {
    "ablations": "Ablations (GNN-encoder, Table 3)",
    "k": "Passages a question (GNN-encoder, Figure 3)",
    "beta": "Share of the questions masked (GNN-encoder, Figure 4)",
    "times": "Encoding times (GNN-encoder, Table 4)",
    "attention": "Attention to a passage's questions (GNN-encoder, Figure 2)",
    "attention_shares": "Mean attention with and without MGT",
    "cases": "Questions won and lost at rank 1",
}
