"""Judgements as rows of the tables: which passages are relevant for which queries."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.base.matrix import Rows, Scores, spans
from gnn_encoder.base.tables import COPIES, COUNTS, OWN, read_table


def relevant_pairs(queries: Path, qrels: Path, passages: Path) -> pl.DataFrame:
    """Pairs of a split that are judged relevant, as row numbers of its tables: columns `query`, `passage`, sorted."""
    query_rows = pl.scan_parquet(queries).select("qid").with_row_index("query")
    passage_rows = pl.scan_parquet(passages).select("pid").with_row_index("passage")
    pairs = pl.scan_parquet(qrels).filter(pl.col("grade") > 0).join(query_rows, on="qid").join(passage_rows, on="pid")
    return pairs.select(pl.col("query", "passage").cast(pl.Int32)).unique().sort("query", "passage").collect()


def pair_counts(queries: Path, counts: Path, passages: Path) -> pl.DataFrame:
    """How often pairs were logged, by a COUNTS table: columns `query`, `passage` (rows of the tables), `count`.

    Pairs of queries that are not in `queries` are passed over.
    """
    table = read_table(counts, COUNTS)
    if table.is_empty():  # the source does not count: the passages need not be read
        return table.select(query=pl.lit(0, pl.Int32), passage=pl.lit(0, pl.Int32), count="count")
    return with_rows(table, queries, passages).select("query", "passage", "count")


def with_rows(run: pl.DataFrame, queries: Path, passages: Path) -> pl.DataFrame:
    """Add the row numbers of a run's qid and pid in their tables to the run, as columns `query` and `passage`.

    A line of the run is left out when its query or its passage is not in the table.
    """
    wanted = run["pid"].unique().implode()
    query_rows = pl.scan_parquet(queries).select("qid").with_row_index("query").collect()
    passage_rows = pl.scan_parquet(passages).select("pid").with_row_index("passage").filter(pl.col("pid").is_in(wanted))
    found = run.join(query_rows, on="qid", maintain_order="left")
    found = found.join(passage_rows.collect(engine="streaming"), on="pid", maintain_order="left")
    return found.with_columns(pl.col("query", "passage").cast(pl.Int32))


def pair_keys(pairs: pl.DataFrame, n_passages: int) -> Rows:
    """Sorted keys query * n_passages + passage."""
    keys = pairs["query"].to_numpy().astype(np.int64) * n_passages + pairs["passage"].to_numpy()
    return np.sort(keys)


def contains(known: Rows, keys: Rows) -> NDArray[np.bool_]:
    """Membership of `keys` (any shape) in the sorted array `known`."""
    if len(known) == 0:
        return np.zeros(keys.shape, dtype=bool)
    at = np.searchsorted(known, keys).clip(max=len(known) - 1)
    found: NDArray[np.bool_] = known[at] == keys
    return found


NO_ROWS: Rows = np.empty(0, dtype=np.int64)
NO_PAIRS = pl.DataFrame(OWN.empty_table())
ROOM = 1_000  # own passages of a query


@dataclass(frozen=True, kw_only=True)
class Identical:
    """The copies of a corpus, and the own passages of a table of queries."""

    copies: Rows = field(default_factory=NO_ROWS.copy)  # passages that repeat an earlier one, ascending; *Shape:* (c,)
    firsts: Rows = field(default_factory=NO_ROWS.copy)  # the first passage with the title and text of each; (c,)
    # Columns query, passage: the passages that a query is itself, unless one of them is relevant for it.
    own: pl.DataFrame = field(default_factory=NO_PAIRS.clone)

    @classmethod
    def read(cls, folder: Path, own: str | Path | None) -> Self:
        """Read what stage prepare found; `own`: split or table of the queries' own passages, None: none has any."""
        rows, firsts = read_table(folder / "copies.parquet", COPIES).cast(pl.Int64).to_numpy().T
        if own is None:
            return cls(copies=rows, firsts=firsts)
        table = own if isinstance(own, Path) else folder / f"{own}.parquet"
        return cls(copies=rows, firsts=firsts, own=read_table(table, OWN))

    @property
    def most(self) -> int:
        """The most own passages that a query has: a search finds so many more than it is asked for.

        Memory grows with them, and so a query of which the corpus has more than `ROOM` copies finds fewer passages.
        """
        return min(ROOM, int(self.own["query"].value_counts()["count"].max() or 0))  # type: ignore[arg-type]

    def first(self, passages: Rows) -> Rows:
        """The first passage with the title and text of each. *Shape:* any -> the same."""
        if not len(self.copies):
            return passages
        at = np.searchsorted(self.copies, passages).clip(max=len(self.copies) - 1)
        return np.where(self.copies[at] == passages, self.firsts[at], passages)

    def with_copies(self, firsts: Rows) -> tuple[Rows, Rows]:
        """Some first passages with all their copies, and the place in `firsts` of each. *Shape:* (n,) -> (p,) twice."""
        order, ordered = self._by_first
        low = np.searchsorted(ordered, firsts)
        at, place = spans(low, np.searchsorted(ordered, firsts, side="right") - low)
        return np.concatenate([firsts, self.copies[order[at]]]), np.concatenate([np.arange(len(firsts)), place])

    def of_queries(self, rows: Rows) -> Self:
        """The same for some queries, which are then told by their places among these rows, which ascend."""
        own = self.own.filter(pl.col("query").is_in(rows.tolist()))
        return replace(self, own=own.with_columns(query=pl.Series(np.searchsorted(rows, own["query"].to_numpy()))))

    def distinct(self, found: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
        """Candidates of which none is the query itself or an unlabelled copy of a labelled one, and each text is once.

        Of copies the best is kept; the ranks of what is kept are consecutive again. `pairs` are the labelled ones.
        """
        if not len(self.copies) and self.own.is_empty():
            return found
        same = pl.concat([self._with_first(one.select("query", "passage")) for one in (pairs, self.own)])
        others = self._with_first(found.join(pairs, on=["query", "passage"], how="anti"))
        others = others.join(same, on=["query", "first"], how="anti").sort("query", "rank")
        others = others.unique(["query", "first"], keep="first", maintain_order=True).drop("first")
        kept = pl.concat([found.join(pairs, on=["query", "passage"], how="semi"), others]).sort("query", "rank")
        return kept.with_columns(rank=pl.int_range(pl.len()).over("query").cast(found.schema["rank"]))

    def is_own(self, passages: Rows) -> NDArray[np.bool_]:
        """Which passages are the query itself. *Shape:* (queries, c), -1: none -> the same."""
        n = 1 + max(int(passages.max(initial=0)), int(self.own["passage"].max() or 0))  # type: ignore[arg-type]
        keys = np.arange(len(passages))[:, None] * n + passages
        return contains(pair_keys(self.own, n), keys) & (passages >= 0)

    def search(self, find: Callable[[int], tuple[Rows, Scores]], k: int, n_passages: int) -> tuple[Rows, Scores]:
        """The k best of each query, or all there are, of what `find` finds. *Shape:* (queries, k) both."""
        return self.without_own(*find(min(k + self.most, n_passages)), k)

    def without_own(self, passages: Rows, scores: Scores, k: int) -> tuple[Rows, Scores]:
        """The k best of each query that are not the query itself, passage -1 where there are fewer.

        *Shape:* (queries, c) both -> (queries, at most k) both.
        """
        if not self.own.is_empty():
            own = self.is_own(passages)
            order = np.argsort(own, axis=1, kind="stable")
            passages = np.take_along_axis(np.where(own, -1, passages), order, axis=1)
            scores = np.take_along_axis(np.where(own, np.float32(-np.inf), scores), order, axis=1)
        return passages[:, :k], scores[:, :k]

    @cached_property
    def _by_first(self) -> tuple[Rows, Rows]:
        """The places of the copies ordered by their first passage, and the first passages in this order."""
        order = np.argsort(self.firsts, kind="stable")
        return order, self.firsts[order]

    def _with_first(self, pairs: pl.DataFrame) -> pl.DataFrame:
        return pairs.with_columns(first=pl.Series(self.first(pairs["passage"].to_numpy()), dtype=pl.Int64))
