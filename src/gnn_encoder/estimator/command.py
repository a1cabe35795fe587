"""`gnn-encoder inform`: passages' vectors informed by queries, beside what the same labels give more cheaply."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.baselines.choice import shown
from gnn_encoder.baselines.labelled import Asked, Others
from gnn_encoder.baselines.shifting import FAMILY, MEAN, NUDGE_M, NUDGE_N, shifts
from gnn_encoder.core.judgements import contains, pair_keys
from gnn_encoder.core.rows import Matrix, Rows
from gnn_encoder.core.storage.arrays import array_blocks
from gnn_encoder.estimator.files import Vectors, check_target, read_pairs, writing
from gnn_encoder.estimator.inputs import LENGTH_ERROR, check_vectors, labelled_pairs
from gnn_encoder.estimator.model import GNNEncoder
from gnn_encoder.index.exact import array_top_k

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
    """Dev queries, which judge vectors of all passages by RR@10. *Shape:* queries (q, d); known: sorted keys."""

    queries: Matrix
    pairs: pl.DataFrame
    m: int

    def judge(self, ranking: Rows) -> float:
        """RR@10 of a ranking, over the queries that have a relevant passage. *Shape:* (q, at most 10)."""
        keys = np.arange(len(ranking))[:, None] * self.m + ranking
        hits = contains(pair_keys(self.pairs, self.m), keys) & (ranking >= 0)
        ranks = np.where(hits.any(axis=1), 1 / (1 + hits.argmax(axis=1)), 0.0)
        return float(ranks[self.pairs["query"].unique().to_numpy()].mean())


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
        params: parameters of `GNNEncoder`; without `similarity`, it is "cosine" where all passages have length 1.
    """
    told, asking, dev_asking = (Vectors.read(path) for path in (passages, queries, dev_queries))
    check_target(out, told)
    more = Vectors.read(unlabelled).matrix if unlabelled is not None else None
    matrix, m = check_vectors("passages", told.matrix), len(told.matrix)
    unit_length = params.setdefault("similarity", "cosine" if has_length_1(matrix) else "dot") == "cosine"
    params.setdefault("temperature", 0.05 if unit_length else 1.0)
    of_queries, of_dev = (
        np.asarray(check_vectors(str(path), one.matrix, columns=matrix.shape[1]), dtype=np.float32)
        for path, one in ((queries, asking), (dev_queries, dev_asking))
    )
    labels, dev_labels = read_pairs(qrels, asking, told), read_pairs(dev_qrels, dev_asking, told)
    pairs = labelled_pairs(str(qrels), labels, len(of_queries), m)
    dev = Dev(queries=of_dev, pairs=labelled_pairs(str(dev_qrels), dev_labels, len(of_dev), m), m=m)
    gnn = GNNEncoder(**params)
    why = "" if unit_length else ", since vectors are not of length 1, which NUDGE-N needs"
    yield f"{m} passages, {pairs['query'].n_unique()} labelled queries; similarity {gnn.similarity}{why}; k {gnn.k}"
    yield f"{'':28} {'RR@10 on dev':>12}  chosen on dev"
    asked, found = Asked.of(matrix, pairs, of_queries), list[Found]()
    for one in labels_alone(matrix, asked, dev, unit_length=unit_length):
        yield line(one.name, one.value, one.setting)
        found.append(one)
    best = max(found, key=lambda one: one.value)
    gnn.fit(matrix, of_queries, labels, dev=(of_dev, dev_labels), unlabelled=more)
    with writing(out, told) as informed:
        gnn.transform(matrix, out=informed)
        value = dev.judge(array_top_k(informed, of_dev, min(DEPTH, m))[0])
        yield line("GNN-encoder", value, "its weights")
        if best.value > value:
            for first, block in array_blocks(matrix):
                informed[first : first + len(block)] = asked.place(first, np.array(block, np.float32), best.moved)
    written = best.name if best.value > value else "GNN-encoder"
    yield f"{out}: {written}, the best on dev; index these vectors, queries stay as they are"


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


def has_length_1(matrix: NDArray[Any]) -> bool:
    """Whether all vectors have length 1. *Shape:* (m, d)."""
    blocks = (block for _, block in array_blocks(matrix))
    return all(np.abs(np.linalg.norm(block, axis=1) - 1).max() <= LENGTH_ERROR for block in blocks)
