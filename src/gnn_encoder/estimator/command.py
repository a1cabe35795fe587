"""`gnn-encoder inform`: passages' vectors informed by queries, beside what the same labels give more cheaply."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.base.judgements import contains, pair_keys
from gnn_encoder.base.matrix import Matrix, Rows, array_blocks
from gnn_encoder.baselines.choice import shown
from gnn_encoder.baselines.labelled import Asked, Others
from gnn_encoder.baselines.shifting import FAMILY, MEAN, NUDGE_M, NUDGE_N, shifts
from gnn_encoder.estimator.files import Vectors, check_target, read_pairs, writing
from gnn_encoder.estimator.inputs import UNIT, check_sizes, check_vectors, labelled_pairs, not_of_length
from gnn_encoder.estimator.model import GNNEncoder
from gnn_encoder.search.exact import array_top_k

DEPTH = 10  # of the measure, RR@10
MEAN_WEIGHTS = (0.0, -0.1, 0.1, -0.2, 0.2, -0.4, 0.4, 0.7, -1.0, 1.0, 1.5, 2.5)
METHODS = {MEAN: "mean of labelled queries", NUDGE_M: "NUDGE-M", NUDGE_N: "NUDGE-N", FAMILY: "closed form"}


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a method without a graph gives: new vectors of the labelled passages, which it chose on dev by RR@10."""

    name: str
    value: float
    setting: str
    moved: Matrix  # (l, d)


@dataclass(frozen=True, kw_only=True)
class Dev:
    """Dev queries, which judge vectors of all passages by RR@10. *Shape:* queries (q, d)."""

    queries: Matrix
    pairs: pl.DataFrame
    m: int

    def judge(self, ranking: Rows) -> float:
        """RR@10 of a ranking. *Shape:* (q, at most 10)."""
        return float(self.reciprocal_ranks(ranking).mean())

    def reciprocal_ranks(self, ranking: Rows) -> NDArray[np.float64]:
        """RR@10 of each query that has a relevant passage. *Shape:* (q, at most 10) -> (judged,)."""
        keys = np.arange(len(ranking))[:, None] * self.m + ranking
        hits = contains(pair_keys(self.pairs, self.m), keys) & (ranking >= 0)
        judged = self.pairs["query"].unique().sort().to_numpy()
        ranks: NDArray[np.float64] = np.where(hits.any(axis=1), 1 / (1 + hits.argmax(axis=1)), 0.0)[judged]
        return ranks


@dataclass(frozen=True, kw_only=True)
class Given:
    """What the files hold, checked; labels are pairs of rows, query first.

    `odd` names the first vector whose length is not 1; None where all have length 1.
    """

    passages: Vectors
    queries: Matrix
    labels: Rows
    dev: Dev
    dev_labels: Rows
    unlabelled: Matrix | None
    odd: str | None

    @classmethod
    def read(
        cls, passages: Path, queries: Path, qrels: Path, dev_queries: Path, dev_qrels: Path, unlabelled: Path | None
    ) -> Self:
        """Read the files.

        Raises:
            UserError: one is missing, or they do not fit each other.
        """
        found, asking, dev_asking = (Vectors.read(path) for path in (passages, queries, dev_queries))
        matrix = check_vectors(str(passages), found.matrix)
        m, columns = matrix.shape
        more = [] if unlabelled is None else [Vectors.read(unlabelled)]
        of_queries, of_dev, *of_unlabelled = (
            np.asarray(check_vectors(str(one.path), one.matrix, columns=columns), dtype=np.float32)
            for one in (asking, dev_asking, *more)
        )
        blocks = ((one.path, *of) for one in (found, asking, dev_asking, *more) for of in array_blocks(one.matrix))
        rows = ((path, first, not_of_length(block, *UNIT)) for path, first, block in blocks)
        odd = next((f"{path}: row {first + row[0]} has length {row[1]:.3g}" for path, first, row in rows if row), None)
        labels, dev_labels = read_pairs(qrels, asking, found), read_pairs(dev_qrels, dev_asking, found)
        pairs = labelled_pairs(str(dev_qrels), dev_labels, len(of_dev), m)
        return cls(
            passages=found,
            queries=of_queries,
            labels=labels,
            dev=Dev(queries=of_dev, pairs=pairs, m=m),
            dev_labels=dev_labels,
            unlabelled=of_unlabelled[0] if of_unlabelled else None,
            odd=odd,
        )


def inform(
    passages: Path,
    queries: Path,
    qrels: Path,
    dev_queries: Path,
    dev_qrels: Path,
    out: Path,
    unlabelled: Path | None = None,
    **params: Any,
) -> Iterator[str]:
    """Write the vectors of the method that is best on dev, and give the lines of a table of what each method has there.

    Args:
        params: parameters of `GNNEncoder`; without `similarity`, it is "cosine" where all vectors have length 1.
    """
    check_target(out, passages, (queries, qrels, dev_queries, dev_qrels, unlabelled))
    given = Given.read(passages, queries, qrels, dev_queries, dev_qrels, unlabelled)
    matrix, dev, unit_length = given.passages.matrix, given.dev, given.odd is None
    gnn = GNNEncoder(
        **({"similarity": "cosine" if unit_length else "dot", "temperature": 0.05 if unit_length else 1.0} | params)
    )
    pairs = labelled_pairs(str(qrels), given.labels, len(given.queries), dev.m)
    check_sizes(gnn.k, gnn.beta, dev.m, pairs, str(qrels))
    if given.odd is not None:
        yield f"! {given.odd}, not 1: scores are inner products, and NUDGE-N is left out"
    yield f"{dev.m} passages, {pairs['query'].n_unique()} labelled queries; similarity {gnn.similarity}; k {gnn.k}"
    yield f"{'':28} {'RR@10 on dev':>12}  chosen on dev"
    asked, found = Asked.of(matrix, pairs, given.queries), list[Found]()
    for one in labels_alone(matrix, asked, dev, unit_length=unit_length):
        yield line(one.name, one.value, one.setting)
        found.append(one)
    best = max(found, key=lambda one: one.value)
    gnn.fit(matrix, given.queries, given.labels, dev=(dev.queries, given.dev_labels), unlabelled=given.unlabelled)
    with writing(out, given.passages) as informed:
        gnn.transform(matrix, out=informed)
        value = dev.judge(array_top_k(informed, dev.queries, min(DEPTH, dev.m))[0])
        yield line("GNN-encoder", value, _trained(gnn))
        if best.value >= value:  # of equally good ones the plainer one
            for first, block in array_blocks(matrix):
                informed[first : first + len(block)] = asked.place(first, np.array(block, np.float32), best.moved)
    written = best.name if best.value >= value else "GNN-encoder"
    yield f"{out}: {written}, the best on dev"
    yield "Index these vectors as they are, for inner products: what normalises them loses the gain. Queries stay."


def _trained(gnn: GNNEncoder) -> str:
    """Which weights the training kept."""
    scores = {row["step"]: row["dev_rr10"] for row in gnn.history_ if row["dev_rr10"] is not None}
    step = max(scores, key=scores.__getitem__, default=0)
    return f"step {step} of training" if step else "its start: training gained nothing on dev"


def line(name: str, value: float, setting: str) -> str:
    """A row of the table."""
    return f"{name:28} {100 * value:12.1f}  {setting}".rstrip()


def labels_alone(passages: NDArray[Any], asked: Asked, dev: Dev, *, unit_length: bool) -> Iterator[Found]:
    """What the labels give without a graph. *Shape:* passages (m, d)."""
    others = Others(passages, asked, dev.queries, DEPTH)

    def judge(moved: Matrix) -> float:
        return dev.judge(others.rank(moved)[0])

    yield Found(name="as they came", value=judge(asked.vectors), setting="", moved=asked.vectors)
    for method, name in METHODS.items():
        if method != NUDGE_N or unit_length:  # it is about vectors of length 1
            tried = shifts(method, asked, others, dev.pairs, passages, weights=MEAN_WEIGHTS, unit_length=unit_length)
            judged = [judge(moved()) for _, moved in tried]
            setting, moved = tried[int(np.argmax(judged))]  # of equal ones the first
            yield Found(name=name, value=max(judged), setting=shown(setting), moved=moved())
