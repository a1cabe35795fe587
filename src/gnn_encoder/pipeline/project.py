"""Where every artifact lies, relative to the project's root."""

from functools import cache
from pathlib import Path
from typing import Any, Literal

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.files import read_json
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.section import Section

DATA = Path("data")
PREPARED = DATA / "prepared"
PASSAGES = PREPARED / "passages.parquet"
MADE_BY = PREPARED / "params.json"  # the parameters of stage prepare
COUNTS = PREPARED / "counts.parquet"
IDENTICAL = PREPARED / "identical"
RUNS = DATA / "runs"
MEASURES = DATA / "measures"
POSITIVES = DATA / "positives" / "dev.parquet"  # relevant passages of the dev queries, by qrels or by answers
DEV_CANDIDATES = DATA / "positives" / "candidates.parquet"  # what the sampled dev queries rank while models train
CROSS_ENCODER = DATA / "cross_encoder"
RETRIEVER = DATA / "retriever"  # the first retriever, a dual-encoder
CANDIDATES = DATA / "candidates" / "candidates.parquet"  # the first retriever's, of every training query
EXAMPLES = DATA / "examples" / "examples.parquet"
BM25_EXAMPLES = DATA / "runs" / "bm25" / "examples.parquet"
EMBEDDINGS = DATA / "embeddings"
GRAPH = DATA / "graph"
NODES = GRAPH / "queries.parquet"  # the queries that are nodes
EDGE_FEATURES = DATA / "edge_features"  # M_ce's embeddings of its edges
GNN = DATA / "mgt"  # the trained GNN; its dual-encoder is in `encoder/`
GENERATED = DATA / "generated"
GENERATED_QUERIES = GENERATED / "queries.parquet"
PRETRAINED = DATA / "dual_cross_pretrained"  # on generated queries
INFORMED = DATA / "informed"  # what informs passages, of the main system
METRICS = Path("metrics")
PLOTS = Path("plots")
REPORT = Path("report") / "index.html"
VALUES = "values.parquet"  # table of every query's measures, in folders of measured systems
EVERY = "all"  # on the command line, instead of the name of a branch or system
JUDGED = ("dev", "test")  # splits on which systems are measured


def is_prepared(params: Params) -> bool:
    """Whether stage prepare has written its tables with the present parameters."""
    made = read_json(MADE_BY, dict[str, Any]) if MADE_BY.is_file() else None
    return made == {"data": params.data.model_dump(), "seed": params.seed}


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
    return registry().encoder(system)


def embeddings(system: str) -> Path:
    """Passage embeddings of a dense system."""
    return EMBEDDINGS / system


def index(system: str) -> Path:
    """Index of a system: FAISS's of a dense one, bm25s's of BM25."""
    return DATA / "indexes" / system


def runs(system: str) -> Path:
    """Folder of a system's runs."""
    return RUNS / system


def run_file(system: str, split: str) -> Path:
    """TREC run of a system on a split."""
    return runs(system) / f"{split}.trec.gz"


def asked(system: str, split: str) -> Path:
    """Embeddings of a split's queries by a dense system, beside its run."""
    return runs(system) / f"{split}.npy"


def measured(system: str) -> Path:
    """Folder of a system's measures, one value for each query and measure."""
    return MEASURES / next(name for name, one in registry().branches.items() if system in one.systems) / system


REGISTRY = Path("systems.yaml")
MAIN = "gnn_encoder"  # the system that the claim is about
REFERENCE = "dual_encoder"  # M_de, which the graph is made with, and which every table compares with
LEXICAL = "bm25"  # the system that ranks by words
UNTOUCHED = "untouched"  # the base model as it comes
CONTROL = "no_gnn"  # M_de trained on without a graph
PLUS = "gnn_encoder_plus"  # the main system with what closed forms of labels and queries add; searched by default
LOGGED = "logged_neighbours"  # the system that looks up similar logged queries
HYBRID = "hybrid"  # BM25, a dense system and the log together
DENSE = ("plain", "views", "shifted", "graph")  # kinds that search vectors


class System(Section):
    """A system that is judged; systems.yaml says what each kind is."""

    title: str
    kind: Literal["lexical", "plain", "shifted", "reordered", "graph", "fused", "views"]
    # How a reordered system ranks anew: a method of `closed_form.METHODS`, the query bank, or logged queries.
    by: Literal["", "nudge_n", "closed_form", "query_bank", "logged"] = ""
    base: str = ""  # the system whose vectors a shifted one moves


class Branch(Section):
    """Systems that are judged together, and the one that they are compared with."""

    baseline: str
    systems: dict[str, System]


class Registry(Section):
    """`systems.yaml`."""

    branches: dict[str, Branch]

    @property
    def systems(self) -> dict[str, System]:
        """All systems in the order of every table."""
        return {name: one for branch in self.branches.values() for name, one in branch.systems.items()}

    def of_kind(self, *kinds: str) -> dict[str, System]:
        """The systems of some kinds."""
        return {name: one for name, one in self.systems.items() if one.kind in kinds}

    @property
    def dense(self) -> dict[str, System]:
        """The systems that search passage vectors, with a dual-encoder for the queries."""
        return self.of_kind(*DENSE)

    def encoder(self, system: str) -> Path:
        """The dual-encoder that encodes a dense system's queries."""
        one = self.dense[system]
        return self.encoder(one.base) if one.base else DATA / ("mgt/encoder" if one.kind == "graph" else system)

    @property
    def rivals(self) -> list[str]:
        """The systems without a graph that score a passage by an inner product with one vector, as MAIN does."""
        plain = [*self.of_kind("plain"), *(name for name, one in self.of_kind("shifted").items() if one.base != MAIN)]
        return [name for name, one in self.systems.items() if name in plain or one.by not in ("", "logged")]


@cache
def registry() -> Registry:
    """The systems of the project in the current folder."""
    return read_registry(REGISTRY)


def title_of(name: str) -> str:
    """The title of a system; any other name, such as that of a model that is part of a system, unchanged."""
    found = registry().systems.get(name)
    return found.title if found else name


def read_registry(path: Path) -> Registry:
    """Read and check a registry; see `registry`."""
    if not path.is_file():
        raise UserError(f"{path}: no such file; run from the project's root")
    return Registry.parsed(path.read_bytes(), path)
