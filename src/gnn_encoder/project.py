"""Where every artifact lies, relative to the project's root: the one place that knows."""

from pathlib import Path

from gnn_encoder.errors import UserError

DATA = Path("data")
PREPARED = DATA / "prepared"
PASSAGES = PREPARED / "passages.parquet"
BM25 = DATA / "bm25"
RETRIEVER = DATA / "retriever"
CANDIDATES = DATA / "candidates"
CROSS_ENCODER = DATA / "cross_encoder"
EXAMPLES = DATA / "examples"
DUAL_ENCODER = DATA / "dual_encoder"
GRAPH = DATA / "graph"
EDGE_FEATURES = DATA / "edge_features"
GENERATOR = DATA / "generator"
GENERATED = DATA / "generated"
MGT = DATA / "mgt"
NO_GNN = DATA / "no_gnn"
EVALUATION = DATA / "evaluation"
METRICS = Path("metrics")
PLOTS = Path("plots")

# The dense systems and the folder of the dual-encoder that encodes their queries.
ENCODERS = {
    "retriever": RETRIEVER,
    "dual_encoder": DUAL_ENCODER,
    "no_gnn": NO_GNN,
    "gnn_encoder": MGT / "encoder",
}
SYSTEMS = ("bm25", *ENCODERS)


def queries(split: str) -> Path:
    """Questions of a split."""
    return PREPARED / "queries" / f"{split}.parquet"


def qrels(split: str) -> Path:
    """Judgements of a split."""
    return PREPARED / "qrels" / f"{split}.parquet"


def embeddings(system: str) -> Path:
    """Passage embeddings of a dense system."""
    return DATA / "embeddings" / system


def index(system: str) -> Path:
    """FAISS index of a dense system."""
    return DATA / "indexes" / system


def run_file(system: str, split: str) -> Path:
    """TREC run of a system on a split."""
    return (BM25 if system == "bm25" else DATA / "runs" / system) / f"{split}.trec.gz"


def dense_system(arguments: list[str]) -> str:
    """The system a stage script was called with.

    Raises:
        UserError: none, or not one of the dense systems.
    """
    if len(arguments) != 1 or arguments[0] not in ENCODERS:
        raise UserError(f"argument is {' '.join(arguments)!r}: must be one of {', '.join(ENCODERS)}")
    return arguments[0]
