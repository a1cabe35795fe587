"""What ranks anew: similar logged queries, and BM25 beside a dense system; their indexes searched together online.

What is relevant for similar logged queries may be relevant for this one (`with_log`):

    s'(q, p) = s(q, p) + w * u * sum of softmax(cos(q, q') / temperature) over the queries q' that p is labelled with

Of the logged queries q' the n nearest to q count, and the softmax goes over these. The idea is LADER's (Jin, Shin and
Lu, SIGIR 2023), which adds the cosines. Here w >= 0, n and temperature are chosen on dev. The unit u is the standard
deviation of the control's scores of one query's passages, so that one grid fits scores of any scale.
Online it costs a second look-up. This ranking and BM25's are joined by a weighted sum of standardised scores (`fused`).
"""

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Self

import numpy as np
import polars as pl

from gnn_encoder.base.errors import UserError, not_built
from gnn_encoder.base.matrix import Matrix, Rows, Scores, of_length_1, spans
from gnn_encoder.controls.choose import Candidates, Choice, Setting, read_choice, taken, union
from gnn_encoder.search.bm25 import BM25Index
from gnn_encoder.search.exact import MISSING, Ranking, block_top_k, top
from gnn_encoder.search.faiss_index import PassageIndex

LABELLED = "log"  # folder of the labelled queries in the artifact of a system that looks them up
ARRAYS = "vectors", "starts", "passages"
# Of each the value that changes least comes first: of equally good ones it is taken.
LOG_WEIGHTS = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)  # w
NEIGHBOURS = (1, 10, 30, 100)  # n
TEMPERATURES = (0.02, 0.05, 0.1, 1.0)
BM25_WEIGHTS = tuple(step / 10 for step in range(11))
AMONG_EQUALS = np.float32(1e-4)  # weight of the dense scores where BM25 has all: what it does not find stays in order


def log_settings() -> list[Setting]:
    """What is tried of the log. Over one neighbour the softmax is 1."""
    return [
        {"weight": weight, "neighbours": n, "temperature": temperature}
        for weight, n in product(LOG_WEIGHTS, NEIGHBOURS)
        for temperature in TEMPERATURES[: None if n > 1 else 1]
    ]


def unit(passages: Rows, scores: Scores) -> float:
    """u: standard deviation of the scores of one query's passages, as the mean over queries.

    *Shape:* (n, k) both, passages -1 where there is none.
    """
    found = passages >= 0
    values = np.where(found, scores, np.nan).astype(np.float64)[found.any(axis=1)]
    return float(np.nanstd(values, axis=1).mean()) if len(values) else 0.0


@dataclass(frozen=True, kw_only=True)
class LabelledQueries:
    """The training queries that have a label, at least one, looked up by similarity.

    *Shape:* vectors (n, d), of length 1; starts (n + 1,): query i is labelled with passages[starts[i]:starts[i + 1]].
    """

    vectors: Matrix
    starts: Rows
    passages: Rows

    @classmethod
    def of(cls, pairs: pl.DataFrame, queries: Matrix) -> Self:
        """Keep the queries that have a label. `pairs`: columns query, a row of `queries`, and passage."""
        pairs = pairs.sort("query", "passage")
        rows, starts = np.unique(pairs["query"].to_numpy(), return_index=True)
        passages = pairs["passage"].to_numpy().astype(np.int64)
        return cls(vectors=of_length_1(queries[rows]), starts=np.append(starts, len(passages)), passages=passages)

    def save(self, folder: Path) -> None:
        """Write arrays that can be mapped."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in ARRAYS:
            np.save(folder / f"{name}.npy", getattr(self, name))

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Map what `save` wrote."""
        try:
            return cls(**{name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in ARRAYS})
        except FileNotFoundError as error:
            raise not_built(error.filename) from error

    def look_up(self, queries: Matrix, neighbours: int) -> Candidates:
        """The passages of each query's nearest labelled queries, with their shares of as many as a setting says.

        *Shape:* queries (n, d) -> (n, b), each passage once a query.
        """
        n = len(queries)
        nearest, cosines = block_top_k(self.vectors, of_length_1(queries), neighbours)
        labels, run = spans(self.starts[nearest].reshape(-1), np.diff(self.starts)[nearest].reshape(-1))
        query, place = np.divmod(run, nearest.shape[1])
        size = 1 + int(self.passages.max())
        keys, which = np.unique(query * size + self.passages[labels], return_inverse=True)
        of, rows = np.divmod(keys, size)
        column = np.arange(len(keys)) - np.searchsorted(of, of)  # `of` ascends: the number within its query
        passages = np.full((n, int(column.max(initial=-1)) + 1), -1)
        passages[of, column] = rows

        def shares(setting: Setting) -> Scores:
            count = int(setting["neighbours"])
            logits = cosines[:, :count] / np.float32(setting["temperature"])
            softmax = np.exp(logits - logits[:, :1])
            softmax /= softmax.sum(axis=1, keepdims=True)
            near, found = place < count, np.zeros(passages.shape, dtype=np.float32)
            np.add.at(found, (query[near], column[which][near]), softmax[query[near], place[near]])
            return found

        return passages, shares


def with_log(run: Ranking, near: Candidates, unit: float) -> Candidates:
    """The passages of M_de's run and the labelled ones of the neighbours, with s'(q, p).

    A passage that the run does not have counts as a little less than its last one. *Shape:* run (n, k) both.
    """
    of_log, shares = near
    passages, in_run, in_log = union(run[0], of_log)
    last = np.where(run[0] >= 0, run[1], np.inf).min(axis=1, initial=np.inf)
    last = np.nextafter(np.where(np.isinf(last), 0, last).astype(np.float32), -np.float32(np.inf))
    base, nothing = taken(in_run, run[1], last), np.zeros(len(passages), dtype=np.float32)

    def scores(setting: Setting) -> Scores:
        weight = np.float32(float(setting["weight"]) * unit)
        found = base + weight * taken(in_log, shares(setting), nothing)
        return np.where(passages < 0, MISSING, found).astype(np.float32)

    return passages, scores


def fused(dense: Ranking, lexical: Ranking) -> Candidates:
    """The passages that two systems found, with (1 - w) z(dense) + w z(BM25), where w is the setting's `weight`.

    Where w is 1, dense scores order equals. *Shape:* (n, a), (n, b): passages and scores, best first.
    """
    passages, in_dense, in_lexical = union(dense[0], lexical[0])
    of_dense = taken(in_dense, *standardised(*dense))
    of_lexical = taken(in_lexical, *standardised(*lexical, others=0.0))

    def scores(setting: Setting) -> Scores:
        weight = np.float32(setting["weight"])
        found = max(1 - weight, AMONG_EQUALS) * of_dense + weight * of_lexical
        return np.where(passages < 0, MISSING, found).astype(np.float32)

    return passages, scores


def standardised(passages: Rows, scores: Scores, others: float | None = None) -> tuple[Scores, Scores]:
    """Scores of each query's passages with mean 0 and standard deviation 1, and what a passage gets that is not there.

    That is a little less than the lowest of them. But if it is known what `others` score, and the system found fewer
    than it could, one of these counts with the passages found: so the only passage with a rare word stands above all
    others. All are 0 where all scores are equal, or none was found. *Shape:* (n, k) both -> (n, k), (n,).
    """
    one_more = ((0, 0), (0, 1))
    found = np.pad(passages >= 0, one_more)
    if others is not None:
        found[:, -1] = ~found[:, :-1].all(axis=1)
    count = np.maximum(found.sum(axis=1, keepdims=True), 1)
    values = np.where(found, np.pad(scores, one_more, constant_values=others or 0), 0).astype(np.float64)
    centred = np.where(found, values - values.sum(axis=1, keepdims=True) / count, 0)
    deviation = np.sqrt((centred**2).sum(axis=1, keepdims=True) / count)
    result = np.divide(centred, deviation, out=np.zeros_like(centred), where=deviation > 0).astype(np.float32)
    least = result.min(axis=1, initial=0.0)
    return result[:, :-1], least if others is not None else np.nextafter(least, -np.float32(np.inf))


@dataclass(frozen=True, kw_only=True)
class HybridIndex:
    """The dense index, the logged queries and BM25's index, as far as the fusion asks them."""

    dense: PassageIndex
    lexical: BM25Index | None  # None, as of the log: it has no part in the fusion
    log: LabelledQueries | None
    choice: Choice

    @classmethod
    def open(cls, dense: PassageIndex, system: str, lexical: Path, folder: Path) -> Self:
        """Open what is asked beside a system's dense index, with the fusion that was chosen, in `folder`.

        The log was embedded for the system that the fusion was chosen with, and for others it is left out.
        """
        bm25, choice = BM25Index.open(lexical), read_choice(folder)
        if bm25.passages != dense.passages:
            found = f"holds {bm25.passages} passages, {dense.folder} has {dense.passages}"
            raise UserError(f"{lexical}: {found}; make it again (`dvc repro`)")
        asks = "log_weight" in choice.facts and choice.facts["dense"] == system
        return cls(
            dense=dense,
            lexical=bm25 if choice.setting["weight"] else None,
            log=LabelledQueries.open(folder / LABELLED) if asks else None,
            choice=choice,
        )

    def search(self, text: str, query: Matrix, k: int) -> Ranking:
        """The best passages of one query. *Shape:* query (1, d) -> (1, at most k) both."""
        depth = min(int(self.choice.facts["depth"]), self.dense.passages)
        if k > depth:  # scores are standardised over so many: of more the first ones would be others
            rule = f"the hybrid was chosen for {depth} passages a query"
            raise UserError(f"k is {k}: {rule}; ask for as many, or raise retrieve.depth and run `dvc repro`")
        found = self.dense.search(query, depth)
        if self.log is not None:
            facts = self.choice.facts.items()
            setting = {name.removeprefix("log_"): value for name, value in facts if name.startswith("log_")}
            near = self.log.look_up(query, int(setting["neighbours"]))
            passages, scores = with_log(found, near, float(setting["unit"]))
            found = top(passages, scores(setting), depth)
        if self.lexical is None:
            return found[0][:, :k], found[1][:, :k]
        passages, scores = fused(found, self.lexical.search([text], depth))
        return top(passages, scores(self.choice.setting), k)
