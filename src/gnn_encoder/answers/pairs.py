"""Finds the pairs of a query and a passage where the passage holds an answer, in several processes.

So DPR finds relevant passages of queries that have only answers (Karpukhin et al. 2020, section 4.2).
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.answers.matching import Kind, finder, prepared
from gnn_encoder.base.distributed import cores, tqdm
from gnn_encoder.base.errors import UserError
from gnn_encoder.base.judgements import with_rows
from gnn_encoder.base.matrix import Rows
from gnn_encoder.base.tables import PASSAGES, QUERIES, open_table

DEPTH = 100  # passages of BM25 that are looked at for a query
PAIRS_A_PROCESS = 50_000  # seconds of work; fewer pairs take less time than starting another process


class Task(NamedTuple):
    """The pairs whose passages are in one row group, sorted by passage. *Shape:* both (n,)."""

    group: int
    passages: Rows  # rows within the group
    queries: Rows


def judged_by_answers(queries: Path) -> bool:
    """Whether a table's queries have answers; if so, passages are judged by these instead of by qrels."""
    found = pl.scan_parquet(queries).select((pl.col("answers").list.len() > 0).any())
    return bool(found.collect().item())


def answered(pairs: pl.DataFrame, queries: Path, passages: Path, kind: Kind) -> pl.DataFrame:
    """Keep the pairs whose passage's text holds one of the query's answers; titles do not count, as in DPR.

    Each passage is read and tokenised once. Each process holds one row group of passages at a time in memory.

    Args:
        pairs: columns query and passage (row numbers of their tables); other columns are kept.
        queries: a table of queries with answers.
        passages: passages.parquet.
    """
    worker = Worker(queries, passages, kind)
    order = pairs["passage"].arg_sort().to_numpy()
    found = np.zeros(len(pairs), dtype=np.bool_)
    done = 0
    bar = tqdm(total=len(pairs), desc="answers", unit=" passages")
    with bar, _workers(worker, len(pairs)) as run:
        for hits in run(_tasks(worker, pairs, order)):
            found[order[done : done + len(hits)]] = hits
            done += len(hits)
            bar.update(len(hits))
    return pairs.filter(pl.Series(found))


def with_answered(
    pairs: pl.DataFrame, retrieved: pl.DataFrame, queries: Path, passages: Path, kind: Kind
) -> pl.DataFrame:
    """Relevant pairs and, if the queries have answers, those of the `retrieved` pairs whose passage holds one.

    Args:
        pairs, retrieved: columns query and passage.
        queries, passages, kind: as in `answered`.
    """
    if not judged_by_answers(queries):
        return pairs
    return pl.concat([pairs, answered(retrieved, queries, passages, kind)]).unique()


def best_answered(run: pl.DataFrame, queries: Path, passages: Path, kind: Kind) -> pl.DataFrame:
    """For each query, BM25's best passage that holds one of its answers, as judgements (qid, pid, grade).

    A query is left out when none of BM25's first passages holds an answer.

    Args:
        run: BM25's run, columns qid, pid, rank.
    """
    top = with_rows(run.filter(pl.col("rank") <= DEPTH), queries, passages)
    hits = answered(top, queries, passages, kind).sort("query", "rank")
    if hits.is_empty():
        raise UserError(
            f"{queries}: BM25's first {DEPTH} passages hold an answer of no query; correct the answers, or "
            "evaluate.answers, which says what they are"
        )
    return hits.unique("qid", keep="first", maintain_order=True).select("qid", "pid", grade=pl.lit(1, pl.Int32))


class Worker:
    """Looks for answers in one row group of passages after another."""

    def __init__(self, queries: Path, passages: Path, kind: Kind) -> None:
        self.settings = queries, passages, kind
        self.file = open_table(passages, PASSAGES)
        table = pl.DataFrame(open_table(queries, QUERIES).read(columns=["qid", "answers"]))
        self._places = [f"{queries}, query {qid!r}, answers" for qid in table["qid"]]
        self._find = [
            _told(place, partial(finder, kind=kind), [answer for answer in answers or [] if answer is not None])
            for place, answers in zip(self._places, table["answers"].to_list(), strict=True)
        ]

    def match(self, task: Task) -> NDArray[np.bool_]:
        """Which pairs of a task hold an answer. *Shape:* (n,)."""
        texts = self.file.read_row_group(task.group, columns=["text"]).column("text")
        hits = np.zeros(len(task.passages), dtype=np.bool_)
        before, text = -1, ""
        for i, (row, query) in enumerate(zip(task.passages.tolist(), task.queries.tolist(), strict=True)):
            if row != before:
                before, text = row, prepared(texts[row].as_py(), self.settings[2])
            hits[i] = _told(self._places[query], self._find[query], text)
        return hits


def _told(place: str, function: Callable[[Any], Any], argument: Any) -> Any:
    """Call a function. A `UserError` that it raises gets the place that the argument comes from in front."""
    try:
        return function(argument)
    except UserError as error:
        raise UserError(f"{place}: {error}") from error


def _tasks(worker: Worker, pairs: pl.DataFrame, order: Rows) -> Iterator[Task]:
    metadata = worker.file.metadata
    ends = np.cumsum([metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)])
    passages, queries = (pairs[name].to_numpy()[order] for name in ("passage", "query"))
    bounds = np.searchsorted(passages, np.concatenate([[0], ends]))
    for group, (first, last) in enumerate(zip(bounds[:-1], bounds[1:], strict=True)):
        if first < last:
            start = ends[group - 1] if group else 0
            yield Task(group, passages[first:last] - start, queries[first:last])


@contextmanager
def _workers(worker: Worker, pairs: int) -> Iterator[Callable[[Iterator[Task]], Iterator[NDArray[np.bool_]]]]:
    """A `map` over tasks: in this process if there are few pairs, else in several processes, one a core at most."""
    processes = min(cores(), -(-pairs // PAIRS_A_PROCESS))
    if processes <= 1:
        yield lambda tasks: map(worker.match, tasks)
        return
    # Spawned: this process may run threads, whose locks a fork would copy.
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        yield lambda tasks: pool.map(partial(_match, worker.settings), tasks)


def _match(settings: tuple[Path, Path, Kind], task: Task) -> NDArray[np.bool_]:
    return _opened(*settings).match(task)


_opened = cache(Worker)  # once in each process
