"""Where every artifact lies, relative to the project's root, and which systems and branches there are."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gnn_encoder.core.errors import UserError

if TYPE_CHECKING:
    from gnn_encoder.core.params import Params

DATA = Path("data")
PREPARED = DATA / "prepared"
PASSAGES = PREPARED / "passages.parquet"
BM25 = DATA / "bm25"
POSITIVES = DATA / "positives" / "dev.parquet"  # of the dev questions, judged by qrels or not
RETRIEVER = DATA / "retriever"
CANDIDATES = DATA / "candidates"
CROSS_ENCODER = DATA / "cross_encoder"
EXAMPLES = DATA / "examples"
DUAL_ENCODER = DATA / "dual_encoder"
PAIR_TEACHER = DATA / "pair_teacher"
PAIR_LABELS = DATA / "pair_labels"
PAIR_SIMILARITY = DATA / "pair_similarity"
GENERATOR = DATA / "generator"
GENERATED = DATA / "generated"
VIEWS_CURVE = DATA / "views_curve"
NO_GNN = DATA / "no_gnn"
COMPARISON = DATA / "comparison"
TRIALS = DATA / "trials"
ENCODING_TIMES = DATA / "encoding_times"
EVIDENCE = DATA / "evidence"
METRICS = Path("metrics")
PLOTS = Path("plots")
REPORT = Path("report") / "index.html"
VALUES = "values.parquet"  # in folders of what questions are worth
JUDGED = ("dev", "test")  # splits


@dataclass(frozen=True, kw_only=True)
class GNNSystem:
    """A GNN-encoder: the dual-encoder that serves as its M_de, and what its graph is made of."""

    name: str
    base: str
    queries: Literal["training", "generated", "both"]
    k: int  # passages a question; a graph that was built with more is cut to the first so many

    @property
    def nodes(self) -> Path:
        """The questions of the graph."""
        return nodes(self.queries)

    @property
    def graph(self) -> Path:
        """Edges."""
        return DATA / "graph" / self.name

    @property
    def edge_features(self) -> Path:
        """M_ce's embeddings of the edges."""
        return DATA / "edge_features" / self.name

    @property
    def model(self) -> Path:
        """The GNN; its dual-encoder is in `encoder/`."""
        return DATA / "mgt" / self.name


@dataclass(frozen=True, kw_only=True)
class Branch:
    """Systems that are judged together, and the one that they are compared with.

    `beside`: systems of other branches that are shown with them. `sampled`: judged on a sample of the questions, so
    that their figures stand in no table with those of all questions.
    """

    systems: tuple[str, ...]
    baseline: str
    beside: tuple[str, ...] = ()
    sampled: bool = False


# The dense systems and the folder of the dual-encoder that encodes their queries.
ENCODERS = {
    "retriever": RETRIEVER,
    "dual_encoder": DUAL_ENCODER,
    "no_gnn": NO_GNN,
    "gnn_encoder": DATA / "mgt" / "gnn_encoder" / "encoder",
    "pair_no_psr": DATA / "pair_no_psr",
    "pair": DATA / "pair",
    "dual_cross_dpr": DATA / "dual_cross_dpr",
    "dual_cross": DATA / "dual_cross",
    "gnn_encoder_pair": DATA / "mgt" / "gnn_encoder_pair" / "encoder",
    "gnn_encoder_generated": DATA / "mgt" / "gnn_encoder_generated" / "encoder",
}
NODES = ("training", "generated", "both")
GNN_SYSTEMS = ("gnn_encoder", "gnn_encoder_pair", "gnn_encoder_generated")
WIDEST = "widest"  # not a system: the main one's graph with as many passages a question as evidence.k asks for
OWN_GRAPHS = ("gnn_encoder", "gnn_encoder_pair")  # by different dual-encoders: neither runs again for the other
WIDER_GRAPHS = ("gnn_encoder_generated", WIDEST)  # have most edges of the main one
GRAPHS = (*OWN_GRAPHS, *WIDER_GRAPHS)
PAIR_SYSTEMS = ("pair_no_psr", "pair")
DUAL_CROSS_SYSTEMS = ("dual_cross_dpr", "dual_cross")

BRANCHES = {
    "gnn_encoder": Branch(
        systems=("bm25", "retriever", "dual_encoder", "no_gnn", "gnn_encoder"), baseline="dual_encoder"
    ),
    "pair": Branch(systems=PAIR_SYSTEMS, baseline="pair_no_psr"),
    "dual_cross": Branch(systems=DUAL_CROSS_SYSTEMS, baseline="dual_cross_dpr"),
    "gnn_encoder_pair": Branch(systems=("gnn_encoder_pair",), baseline="pair"),
    "gnn_encoder_generated": Branch(systems=("gnn_encoder_generated",), baseline="gnn_encoder"),
    "reranked": Branch(
        systems=("reranked",), baseline="dual_encoder", beside=("retriever", "no_gnn", "gnn_encoder"), sampled=True
    ),
}
BRANCH_OF = {system: name for name, branch in BRANCHES.items() for system in branch.systems}


def is_sampled(system: str) -> bool:
    """Whether a system is judged on a sample of the questions."""
    return BRANCHES[BRANCH_OF[system]].sampled


def queries(split: str) -> Path:
    """Questions of a split."""
    return PREPARED / "queries" / f"{split}.parquet"


def qrels(split: str) -> Path:
    """Judgements of a split."""
    return PREPARED / "qrels" / f"{split}.parquet"


def nodes(which: str) -> Path:
    """Questions that are nodes of a graph: training, generated or both."""
    return DATA / "nodes" / which


def embeddings(system: str) -> Path:
    """Passage embeddings of a dense system."""
    return DATA / "embeddings" / system


def index(system: str) -> Path:
    """FAISS index of a dense system."""
    return DATA / "indexes" / system


def run_file(system: str, split: str) -> Path:
    """TREC run of a system on a split."""
    return (BM25 if system == "bm25" else DATA / "runs" / system) / f"{split}.trec.gz"


def measured(system: str) -> Path:
    """What a system's runs are worth, question by question."""
    return DATA / "measures" / BRANCH_OF[system] / system


def evaluation(branch: str) -> Path:
    """A branch's systems compared."""
    return DATA / "evaluation" / branch


def trial(kind: str, name: str) -> Path:
    """What one system of an ablation or sweep is worth, seed by seed and question by question."""
    return TRIALS / kind / name


def pretrained(system: str) -> Path:
    """An encoder of PAIR's or of Dual-Cross-Encoder's between its two stages of training."""
    return DATA / f"{system}_pretrained"


def gnn_system(name: str, params: "Params") -> GNNSystem:
    """What a GNN-encoder is made from; `mgt.init` and `build_graph.queries` say it of the main one."""
    k = params.build_graph.k
    if name == "gnn_encoder_pair":
        return GNNSystem(name=name, base="pair", queries="training", k=k)
    if name == "gnn_encoder_generated":
        return GNNSystem(name=name, base="dual_encoder", queries="both", k=k)
    if name == WIDEST:
        k = max(params.evidence.k)
    return GNNSystem(name=name, base=params.mgt.init, queries=params.build_graph.queries, k=k)


def chosen(arguments: list[str], names: tuple[str, ...]) -> str:
    """The one of `names` that a stage script was called with.

    Raises:
        UserError: none, or another.
    """
    if len(arguments) != 1 or arguments[0] not in names:
        raise UserError(f"argument is {' '.join(arguments)!r}: must be one of {', '.join(names)}")
    return arguments[0]
