"""Where every artifact lies, relative to the project's root."""

from pathlib import Path

from gnn_encoder.core.systems import registry

DATA = Path("data")
PREPARED = DATA / "prepared"
PASSAGES = PREPARED / "passages.parquet"
RUNS = DATA / "runs"
POSITIVES = DATA / "positives" / "dev.parquet"  # of the dev queries, judged by qrels or not
RETRIEVER = DATA / "retriever"
CANDIDATES = DATA / "candidates" / "candidates.parquet"
CROSS_ENCODER = DATA / "cross_encoder"
EXAMPLES = DATA / "examples" / "examples.parquet"
PAIR_TEACHER = DATA / "pair_teacher"
PAIR_LABELS = DATA / "pair_labels"
PAIR_SIMILARITY = DATA / "pair_similarity"
GENERATOR = DATA / "generator"
GENERATED = DATA / "generated"
VIEWS_CURVE = DATA / "views_curve"
TRIALS = DATA / "trials"
ENCODING_TIMES = DATA / "encoding_times"
EVIDENCE = DATA / "evidence"
METRICS = Path("metrics")
PLOTS = Path("plots")
REPORT = Path("report") / "index.html"
VALUES = "values.parquet"  # in folders of what queries are worth
JUDGED = ("dev", "test")  # splits


def queries(split: str) -> Path:
    """Queries of a split."""
    return PREPARED / "queries" / f"{split}.parquet"


def qrels(split: str) -> Path:
    """Judgements of a split."""
    return PREPARED / "qrels" / f"{split}.parquet"


def encoder(system: str) -> Path:
    """The dual-encoder that encodes a dense system's queries."""
    return Path(registry().dense[system].encoder)


def embeddings(system: str) -> Path:
    """Passage embeddings of a dense system."""
    return DATA / "embeddings" / system


def index(system: str) -> Path:
    """FAISS index of a dense system."""
    return DATA / "indexes" / system


def graph(system: str) -> Path:
    """Nodes and edges of a graph."""
    return DATA / "graph" / system


def edge_features(system: str) -> Path:
    """M_ce's embeddings of a graph's edges."""
    return DATA / "edge_features" / system


def gnn(system: str) -> Path:
    """A trained GNN; its dual-encoder is in `encoder/`."""
    return DATA / "mgt" / system


def run_file(system: str, split: str) -> Path:
    """TREC run of a system on a split."""
    return RUNS / system / f"{split}.trec.gz"


def measured(system: str) -> Path:
    """What a system's runs are worth, query by query."""
    return DATA / "measures" / registry().systems[system].branch / system


def trial(name: str) -> Path:
    """What a trial of the evidence is worth, seed by seed and query by query."""
    return TRIALS / name
