"""Rankings as matrices of passages and scores: read from runs, joined, cut to the best."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnn_encoder.core.judgements import with_rows
from gnn_encoder.core.rows import Rows, Scores
from gnn_encoder.core.runs import as_matrices, read_run
from gnn_encoder.core.storage.tables import count_rows
from gnn_encoder.pipeline import project

NOTHING = np.float32(-np.inf)  # the score where there is no passage


def read_ranked(runs: Path, split: str) -> tuple[Rows, Scores]:
    """A run in a system's folder of runs: passages and scores of every query of the split, -1 after shorter rankings.

    *Shape:* (queries of the split, longest ranking) both.
    """
    queries = project.queries(split)
    run = with_rows(read_run(runs / f"{split}.trec.gz"), queries, project.PASSAGES)
    passages, scores = as_matrices(run, np.arange(count_rows(queries)))
    scores[passages < 0] = NOTHING
    return passages, scores


def best(passages: NDArray[Any], scores: Scores, depth: int) -> tuple[Rows, Scores]:
    """Each query's `depth` best passages, the lower row first among equals.

    *Shape:* (n, k) both, in any order, passages -1 with score `NOTHING` -> (n, min(k, depth)) both.
    """
    width = scores.shape[1]
    if width > depth:  # sort only what reaches the score of the last place
        last = np.partition(scores, width - depth, axis=1)[:, width - depth, None]
        kept = scores >= last
        order = np.argsort(~kept, axis=1, kind="stable")[:, : int(kept.sum(axis=1).max(initial=0))]
        passages, scores = np.take_along_axis(passages, order, axis=1), np.take_along_axis(scores, order, axis=1)
    order = np.lexsort((passages, -scores), axis=-1)[:, :depth]
    return np.take_along_axis(passages, order, axis=1), np.take_along_axis(scores, order, axis=1)


def union(first: Rows, second: Rows) -> tuple[Rows, Rows, Rows]:
    """The passages that either of two rankings has, each once a query.

    *Shape:* (n, a), (n, b) -> (n, a + b) three times: passages, padded with -1 anywhere; their columns in `first`; in
    `second`. A column is -1 where the ranking does not have the passage.
    """
    passages = np.concatenate([first, second], axis=1)
    order = np.argsort(passages, axis=1, kind="stable")  # a passage of both stands first as that of `first`
    passages, width = np.take_along_axis(passages, order, axis=1), first.shape[1]
    in_first = np.where(order < width, order, -1)
    in_second = np.where(order >= width, order - width, -1)
    again = np.zeros(passages.shape, dtype=bool)
    again[:, 1:] = (passages[:, 1:] == passages[:, :-1]) & (passages[:, 1:] >= 0)
    in_second[:, :-1] = np.where(again[:, 1:], in_second[:, 1:], in_second[:, :-1])
    passages[again] = -1
    return passages, in_first, in_second


def taken(columns: Rows, values: Scores, otherwise: Scores) -> Scores:
    """`values` at `columns`; `otherwise` where a column is -1.

    *Shape:* (n, c), (n, a), (n,) -> (n, c).
    """
    if values.shape[1] == 0:
        return np.broadcast_to(otherwise[:, None], columns.shape).astype(np.float32)
    found = np.take_along_axis(values, np.maximum(columns, 0), axis=1)
    return np.where(columns >= 0, found, otherwise[:, None]).astype(np.float32)
