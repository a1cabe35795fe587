"""What systems, branches and splits are called where people read."""

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


def name_of(system: str) -> str:
    """A system's or branch's name; what has none is called as it is."""
    return NAMES.get(system, system)
