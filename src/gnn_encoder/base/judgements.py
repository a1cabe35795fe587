"""Judgements as rows of the tables: which passages are relevant for which queries, and which are copies or the query.

Texts are compared in one form, in which white space, invisible characters and how characters are stored do not differ.
The case of a letter tells passages apart, but not a query from a passage.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.base import tables
from gnn_encoder.base.distributed import tqdm
from gnn_encoder.base.matrix import Rows, Scores, spans
from gnn_encoder.base.tables import COPIES, OWN, PASSAGES, SPLITS, UNLABELLED, read_table, with_title, write_table
from gnn_encoder.base.words import INVISIBLE


def relevant_pairs(queries: Path, qrels: Path, passages: Path) -> pl.DataFrame:
    """Pairs of a split that are judged relevant, as row numbers of its tables: columns `query`, `passage`, sorted."""
    judged = with_rows(pl.read_parquet(qrels).filter(pl.col("grade") > 0), queries, passages)
    return judged.select("query", "passage").unique().sort("query", "passage")


AGAIN = 0.5  # that share from which on labels are edges where nobody says otherwise


def share_asked_again(train: pl.DataFrame, dev: pl.DataFrame) -> float:
    """Share of the dev queries for which a passage is relevant that a training query is labelled with, too.

    Both have pairs, columns `query` and `passage`. Where most dev queries are such, labels as edges (`mgt.labels`) help
    to find passages again; where few are, Masked Graph Training learns from them to rank labelled passages lower.
    """
    known = pl.col("passage").is_in(train["passage"].unique().implode())
    return float(dev.group_by("query").agg(known.any())["passage"].mean() or 0)  # type: ignore[arg-type]


def with_rows(run: pl.DataFrame, queries: Path, passages: Path) -> pl.DataFrame:
    """Add the row numbers of qid and pid in their tables, as columns `query` and `passage`, to the lines with both."""
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
    return np.asarray(known[np.searchsorted(known, keys).clip(max=len(known) - 1)] == keys)


NO_ROWS: Rows = np.empty(0, dtype=np.int64)
NO_PAIRS = pl.DataFrame(schema=pl.Schema(OWN))
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
        same = pl.concat([self.with_first(one.select("query", "passage")) for one in (pairs, self.own)])
        others = self.with_first(found.join(pairs, on=["query", "passage"], how="anti"))
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

    def with_first(self, pairs: pl.DataFrame) -> pl.DataFrame:
        """Pairs with the column `first`: the first passage with the title and text of each."""
        return pairs.with_columns(first=pl.Series(self.first(pairs["passage"].to_numpy()), dtype=pl.Int64))


SPACES = r"\s\s+|[^\S ]"  # runs of white space but the single blank, which stays and would make most of the work


def write_identical(prepared: Path, folder: Path) -> dict[str, dict[str, int]]:
    """Write copies.parquet and each split's own passages. Returns how many there are, by table, for the statistics."""
    passages, splits = prepared / "passages.parquet", (*SPLITS, UNLABELLED)
    queries = {split: prepared / "queries" / f"{split}.parquet" for split in splits}
    asked = (
        pl.read_parquet(path, columns=["qid", "text"]).with_row_index("query").with_columns(split=pl.lit(split))
        for split, path in queries.items()
    )
    identical, own = _find_identical(passages, pl.concat(asked))
    copies = pl.DataFrame({"passage": identical.copies, "first": identical.firsts})
    write_table(folder / "copies.parquet", COPIES, [copies.to_arrow()])
    counts = {"passages": {"copies_of_another": len(copies)}}
    for split, table in queries.items():
        qrels = prepared / "qrels" / f"{split}.parquet"
        pairs = NO_PAIRS if split == UNLABELLED else relevant_pairs(table, qrels, passages)
        mine = _own_pairs(own.filter(pl.col("split") == split), pairs, identical)
        write_table(folder / f"{split}.parquet", OWN, [mine.to_arrow()])
        counts[split] = {"queries_that_are_passages": mine["query"].n_unique()}
    return counts


def _find_identical(passages: Path, queries: pl.DataFrame) -> tuple[Identical, pl.DataFrame]:
    """The copies of a passages table; the queries that are passages: their columns query and split, with `passage`.

    A query is a passage itself if its text is the passage's text, with its title or without, or if both have the same
    id and the text of one begins with the other: the same id alone says nothing where both are counted from 0. It is
    all passages that its text holds of a document with its id. Memory: 8 bytes a passage, and the queries.
    """
    asked, first = queries.with_columns(asked=without_case(one_form(pl.col("text")))).drop("text"), 0
    hashes, own = [np.empty(0, dtype=np.uint64)], list[pl.DataFrame]()
    batches = tables.open_table(passages, PASSAGES).iter_batches(tables.ROW_GROUP)
    for batch in tqdm(batches, desc="identical", unit=" batches"):
        texts = pl.DataFrame(batch).with_columns(one_form(pl.col(name)) for name in ("title", "text"))
        hashes.append(texts.select(pl.concat_str("title", "text", separator="\n")).to_series().hash(seed=0).to_numpy())
        own.append(_own_passages(texts.with_row_index("passage", first), asked))
        first += len(texts)
    copies, firsts = _copies(np.concatenate(hashes))
    return Identical(copies=copies, firsts=firsts), pl.concat(own).unique(maintain_order=True)


def _own_passages(texts: pl.DataFrame, queries: pl.DataFrame) -> pl.DataFrame:
    """The queries that are some passages. `texts`: columns passage, pid, title, text, in one form."""
    whole = pl.Series("whole", list(map(with_title, texts["title"], texts["text"])), pl.String)
    texts = texts.with_columns(whole).with_columns(without_case(pl.col(name)) for name in ("text", "whole"))
    asked = pl.col("asked")
    begins = [one.str.starts_with(asked) | asked.str.starts_with(one) for one in (pl.col("text"), pl.col("whole"))]
    same_id = texts.join(queries.with_columns(pid="qid"), on="pid").filter(pl.any_horizontal(begins))
    parts = texts.with_columns(qid=pl.col("pid").str.extract(r"^(.*)#[0-9]+$")).drop_nulls("qid")
    held = parts.join(queries, on="qid").filter(asked.str.contains(pl.col("text"), literal=True))
    same_text = [texts.join(queries, left_on=name, right_on="asked") for name in ("text", "whole")]
    return pl.concat(found.select("query", "split", "passage") for found in (same_id, held, *same_text))


def _copies(hashes: Rows) -> tuple[Rows, Rows]:
    """The rows that repeat an earlier one, and the first ones that they repeat. *Shape:* (n,) -> (c,) twice."""
    ordered = np.sort(hashes)
    rows = np.flatnonzero(contains(ordered[1:][ordered[1:] == ordered[:-1]], hashes))
    _, first, text = np.unique(hashes[rows], return_index=True, return_inverse=True)
    firsts = rows[first][text]
    return rows[firsts != rows], firsts[firsts != rows]


def _own_pairs(own: pl.DataFrame, relevant: pl.DataFrame, identical: Identical) -> pl.DataFrame:
    """Own passages with all their copies, unless one of these is relevant: columns query, passage, sorted."""
    mine = identical.with_first(own.with_columns(pl.col("query").cast(pl.Int32))).unique(["query", "first"])
    left = mine.join(identical.with_first(relevant), on=["query", "first"], how="anti")
    passages, place = identical.with_copies(left["first"].to_numpy())
    return pl.DataFrame({"query": left["query"].gather(place), "passage": passages}).sort("query", "passage")


def one_form(text: pl.Expr) -> pl.Expr:
    """What texts that count as the same have in common: NFKC of what is seen, one blank for a run of white space."""
    beyond_ascii = pl.when(text.str.len_bytes() > text.str.len_chars()).then(text)  # NFKC is slow, and keeps ASCII
    seen = beyond_ascii.str.replace_all(f"[{INVISIBLE}]", "").str.normalize("NFKC")
    return seen.fill_null(text).str.replace_all(SPACES, " ").str.strip_chars()


def without_case(text: pl.Expr) -> pl.Expr:
    """Texts in one case, as `words` has them: lower case, but for what upper case writes otherwise."""
    return text.str.to_lowercase().str.replace_many({"ß": "ss", "i\u0307": "i"})
