"""The ceiling that single vectors try to reach: M_de's top passages in a cross-encoder's order, and what it costs."""

import time
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.encoders.cross_encoder import CrossEncoder
from gnn_encoder.encoders.pairs import Pairs, encode_pairs
from gnn_encoder.encoders.tokens import Batch, TextTokens

TIMED_QUESTIONS = 20
WARM_UP = 3  # questions scored before those that are timed


def sample_qids(qids: pl.Series, count: int | None, seed: int) -> pl.Series:
    """A fixed random sample in the ids' own order; all where there are not more."""
    if count is None or count >= len(qids):
        return qids
    chosen = np.random.default_rng(seed).permutation(len(qids))[:count]
    return qids.gather(np.sort(chosen))


def reorder(run: pl.DataFrame, scored: pl.DataFrame) -> pl.DataFrame:
    """Rank the scored passages of each question by their score, ties as before; those below keep their order.

    Args:
        run: columns query, passage, rank.
        scored: columns query, passage, score (0..1), the first passages of `run`.

    Returns:
        Columns query, passage, rank, score; unscored passages have minus their rank.
    """
    found = run.join(scored, on=["query", "passage"], how="left", maintain_order="left")
    found = found.sort("query", "score", "rank", descending=[False, True, False], nulls_last=True)
    rank = pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over("query")
    return found.with_columns(rank=rank).with_columns(pl.col("score").fill_null(-pl.col("rank")))


def as_matrices(run: pl.DataFrame, queries: NDArray[np.integer[Any]]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """A run's passages and scores, best first, passage -1 where a question has fewer. *Shape:* (q,) -> (q, k) each.

    Args:
        run: columns query, passage, rank, score.
        queries: rows, sorted.
    """
    at = np.searchsorted(queries, run["query"].to_numpy()), run["rank"].to_numpy() - 1
    shape = len(queries), int(at[1].max(initial=-1)) + 1
    passages, scores = np.full(shape, -1, dtype=np.int64), np.zeros(shape, dtype=np.float32)
    passages[at], scores[at] = run["passage"].to_numpy(), run["score"].to_numpy()
    return passages, scores


def milliseconds(
    model: CrossEncoder,
    top: pl.DataFrame,
    questions: TextTokens,
    passages: TextTokens,
    *,
    max_length: int,
    batch_tokens: int,
) -> float:
    """Median time of scoring one question's passages, tokenised already, one question at a time.

    Args:
        top: columns query, passage.
    """

    def scores(batch: Batch) -> Any:
        return model.scores(batch).unsqueeze(1)

    seconds = []
    for _, part in top.group_by("query", maintain_order=True):
        rows = {name: part[name].to_numpy().astype(np.int64) for name in ("query", "passage")}
        pairs = Pairs(first=questions, first_rows=rows["query"], second=passages, second_rows=rows["passage"])
        began = time.perf_counter()
        list(encode_pairs(model, pairs, [0], scores, max_length=max_length, batch_tokens=batch_tokens))
        seconds.append(time.perf_counter() - began)
        if len(seconds) == WARM_UP + TIMED_QUESTIONS:
            break
    return 1000 * float(np.median(seconds[WARM_UP if len(seconds) > WARM_UP else 0 :]))
