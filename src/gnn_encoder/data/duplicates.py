"""Finds passages with the title and text of another one, and queries that are passages themselves.

Texts are compared in one form, in which white space, invisible characters and how characters are stored do not differ.
The case of a letter tells passages apart, but not a query from a passage.
"""

from pathlib import Path

import numpy as np
import polars as pl

from gnn_encoder.base.distributed import tqdm
from gnn_encoder.base.judgements import NO_PAIRS, Identical, contains, relevant_pairs
from gnn_encoder.base.matrix import Rows
from gnn_encoder.base.tables import (
    COPIES,
    OWN,
    PASSAGES,
    ROW_GROUP,
    SPLITS,
    UNLABELLED,
    count_rows,
    open_table,
    write_table,
)
from gnn_encoder.base.words import INVISIBLE

SPACES = r"\s\s+|[^\S ]"  # runs of white space but the single blank, which stays and would make most of the work


class Finder:
    """Reads passages batch by batch. Memory: 8 bytes a passage, and the queries.

    A query is a passage itself if its text is the passage's text, with its title or without, or if both have the same
    id and the text of one begins with the other: the same id alone says nothing where both are counted from 0. It is
    all passages that its text holds of a document with its id.

    Args:
        queries: columns qid, text and others, which are given back.
    """

    def __init__(self, queries: pl.DataFrame) -> None:
        self._queries = queries.with_columns(asked=without_case(one_form(pl.col("text")))).drop("text")
        self._tells = [*(name for name in queries.columns if name != "text"), "pid", "passage"]
        self._hashes = [np.empty(0, dtype=np.uint64)]
        self._own = [self._matched(pl.DataFrame(PASSAGES.empty_table()), 0)]

    def add(self, batch: pl.DataFrame) -> None:
        """Read the next passages: columns pid, title, text."""
        batch = batch.with_columns(one_form(pl.col(name)) for name in ("title", "text"))
        self._own.append(self._matched(batch, sum(map(len, self._hashes))))
        whole = batch.select(pl.concat_str("title", "text", separator="\n"))
        self._hashes.append(whole.to_series().hash(seed=0).to_numpy())

    def own(self) -> pl.DataFrame:
        """The queries that are passages: the columns of `queries` but text, and pid and passage, its row."""
        return pl.concat(self._own).unique(maintain_order=True)

    def copies(self) -> tuple[Rows, Rows]:
        """The rows of the passages that repeat an earlier one, and of the first with the same text. *Shape:* (c,)."""
        hashes = np.concatenate(self._hashes)
        ordered = np.sort(hashes)
        repeated = ordered[1:][ordered[1:] == ordered[:-1]]
        rows = np.flatnonzero(contains(repeated, hashes))
        _, first, text = np.unique(hashes[rows], return_index=True, return_inverse=True)
        firsts = rows[first][text]
        return rows[firsts != rows], firsts[firsts != rows]

    def _matched(self, batch: pl.DataFrame, first: int) -> pl.DataFrame:
        text = without_case(pl.col("text"))
        whole = without_case(pl.concat_str("title", "text", separator=" ").str.strip_chars())
        rows = batch.select("pid", text=text, whole=whole, passage=pl.int_range(pl.len()) + first)
        same_id = rows.join(self._queries.with_columns(pid="qid"), on="pid").filter(
            pl.any_horizontal(
                one.str.starts_with(other)
                for name in ("text", "whole")
                for one, other in ((pl.col(name), pl.col("asked")), (pl.col("asked"), pl.col(name)))
            )
        )
        holds = pl.col("asked").str.contains(pl.col("text"), literal=True)
        parts = rows.with_columns(qid=pl.col("pid").str.extract(r"^(.*)#[0-9]+$")).drop_nulls("qid")
        same_document = parts.join(self._queries, on="qid").filter(holds)
        same_text = [rows.join(self._queries, left_on=name, right_on="asked") for name in ("text", "whole")]
        return pl.concat([found.select(self._tells) for found in (same_id, same_document, *same_text)])


def one_form(text: pl.Expr) -> pl.Expr:
    """What texts that count as the same have in common: NFKC of what is seen, one blank for a run of white space."""
    beyond_ascii = pl.when(text.str.len_bytes() > text.str.len_chars()).then(text)  # NFKC is slow, and keeps ASCII
    seen = beyond_ascii.str.replace_all(f"[{INVISIBLE}]", "").str.normalize("NFKC")
    return seen.fill_null(text).str.replace_all(SPACES, " ").str.strip_chars()


def without_case(text: pl.Expr) -> pl.Expr:
    """Texts in one case, as `core/words.py` has them: lower case, but for what upper case writes otherwise."""
    return text.str.to_lowercase().str.replace_many({"ß": "ss", "i\u0307": "i"})


def write_identical(prepared: Path, folder: Path) -> dict[str, dict[str, int]]:
    """Write copies.parquet and each split's own passages. Returns how many there are, by table, for the statistics."""
    passages, splits = prepared / "passages.parquet", (*SPLITS, UNLABELLED)
    tables = {split: prepared / "queries" / f"{split}.parquet" for split in splits}
    asked = (
        pl.read_parquet(path, columns=["qid", "text"]).with_row_index("query").with_columns(split=pl.lit(split))
        for split, path in tables.items()
    )
    finder = Finder(pl.concat(asked))
    bar = tqdm(total=count_rows(passages), desc="identical passages", unit=" passages")
    for batch in open_table(passages, PASSAGES).iter_batches(batch_size=ROW_GROUP):
        finder.add(pl.DataFrame(batch))
        bar.update(len(batch))
    bar.close()
    copies, firsts = finder.copies()
    found = Identical(copies=copies, firsts=firsts)
    write_table(folder / "copies.parquet", COPIES, [pl.DataFrame({"passage": copies, "first": firsts}).to_arrow()])
    own, counts = finder.own(), {}
    for split, table in tables.items():
        pairs = relevant_pairs(table, prepared / "qrels" / f"{split}.parquet", passages)
        mine = own_pairs(own.filter(pl.col("split") == split), pairs, found)
        write_table(folder / f"{split}.parquet", OWN, [mine.to_arrow()])
        counts[split] = {"queries_that_are_passages": mine["query"].n_unique()}
    return {"passages": {"copies_of_another": len(copies)}} | counts


def own_pairs(own: pl.DataFrame, relevant: pl.DataFrame, identical: Identical) -> pl.DataFrame:
    """Own passages with all their copies, unless one of these is relevant: columns query, passage, sorted.

    Args:
        own, relevant: columns query, passage.
    """
    if own.is_empty():
        return NO_PAIRS
    first, judged = (identical.first(pairs["passage"].to_numpy().astype(np.int64)) for pairs in (own, relevant))
    of_own = pl.DataFrame({"query": own["query"], "first": first}, schema_overrides={"query": pl.Int32})
    of_relevant = pl.DataFrame({"query": relevant["query"], "first": judged}, schema_overrides={"query": pl.Int32})
    left = of_own.unique().join(of_relevant, on=["query", "first"], how="anti")
    passages, place = identical.with_copies(left["first"].to_numpy())
    return pl.DataFrame({"query": left["query"].gather(place), "passage": passages}).sort("query", "passage")
