"""Where every artifact lies, relative to the project's root."""

from pathlib import Path
from typing import TYPE_CHECKING

from gnn_encoder.core.storage.fingerprint import recorded_params
from gnn_encoder.pipeline.systems import registry

if TYPE_CHECKING:
    from gnn_encoder.pipeline.params import Params

DATA = Path("data")
PREPARED = DATA / "prepared"
PASSAGES = PREPARED / "passages.parquet"
COUNTS = PREPARED / "counts.parquet"
IDENTICAL = PREPARED / "identical"
RUNS = DATA / "runs"
MEASURES = DATA / "measures"
POSITIVES = DATA / "positives" / "dev.parquet"  # relevant passages of the dev queries, by qrels or by answers
DEV_CANDIDATES = DATA / "positives" / "candidates.parquet"  # what the sampled dev queries rank while models train
CANDIDATES = DATA / "candidates" / "candidates.parquet"
CROSS_ENCODER = DATA / "cross_encoder"
EXAMPLES = DATA / "examples" / "examples.parquet"
BM25_EXAMPLES = DATA / "runs" / "bm25" / "examples.parquet"
TARGETS = EXAMPLES.with_name("targets.parquet")
PAIR_LABELS = DATA / "pair_labels"
EMBEDDINGS = DATA / "embeddings"
GENERATED = DATA / "generated"
GENERATED_QUERIES = GENERATED / "queries.parquet"
GENERATOR = GENERATED / "generator"
COMPARISON = DATA / "comparison"
QUERY_ENCODERS = Path(".scratch") / "query_encoders"  # graphs of encoders, made when they are first searched with
METRICS = Path("metrics")
PLOTS = Path("plots")
REPORT = Path("report") / "index.html"
VALUES = "values.parquet"  # table of every query's measures, in folders of measured systems
JUDGED = ("dev", "test")  # splits on which systems are measured


def is_prepared(params: "Params") -> bool:
    """Whether stage prepare has written its tables with the present parameters."""
    made = recorded_params(PREPARED)
    return bool(made.get("data") == params.data.model_dump() and made.get("seed") == params.seed)


def queries(split: str) -> Path:
    """Queries of a split."""
    return PREPARED / "queries" / f"{split}.parquet"


def qrels(split: str) -> Path:
    """Judgements of a split."""
    return PREPARED / "qrels" / f"{split}.parquet"


def tables(split: str) -> tuple[Path, Path, Path]:
    """Queries and judgements of a split, and the passages."""
    return queries(split), qrels(split), PASSAGES


def encoder(system: str) -> Path:
    """The dual-encoder that encodes a dense system's queries."""
    return Path(registry().dense[system].encoder)


def embeddings(system: str) -> Path:
    """Passage embeddings of a dense system."""
    return EMBEDDINGS / system


def views(system: str) -> Path:
    """Embeddings of a system's views, one by one, also where `embeddings` has their mean."""
    apart = embeddings(system) / "views"
    return apart if apart.is_dir() else embeddings(system)


def index(system: str) -> Path:
    """Index of a system: FAISS's of a dense one, bm25s's of BM25."""
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


def runs(system: str) -> Path:
    """Folder of a system's runs."""
    return RUNS / system


def run_file(system: str, split: str) -> Path:
    """TREC run of a system on a split."""
    return runs(system) / f"{split}.trec.gz"


def measured(system: str) -> Path:
    """Folder of a system's measures, one value for each query and measure."""
    return MEASURES / registry().systems[system].branch / system


def evaluation(branch: str) -> Path:
    """Folder of a branch's evaluation."""
    return DATA / "evaluation" / branch
