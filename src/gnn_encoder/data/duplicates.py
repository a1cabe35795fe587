"""Finds passages with the title and text of another one, and queries that are passages themselves.

Texts are compared in one form, in which white space, invisible characters and how characters are stored do not differ.
The case of a letter tells passages apart, but not a query from a passage.
"""

from pathlib import Path

import numpy as np
import polars as pl

from gnn_encoder.base import tables
from gnn_encoder.base.distributed import tqdm
from gnn_encoder.base.judgements import NO_PAIRS, Identical, contains, relevant_pairs
from gnn_encoder.base.matrix import Rows
from gnn_encoder.base.tables import COPIES, OWN, PASSAGES, SPLITS, UNLABELLED, open_table, with_title, write_table
from gnn_encoder.base.words import INVISIBLE

SPACES = r"\s\s+|[^\S ]"  # runs of white space but the single blank, which stays and would make most of the work


def write_identical(prepared: Path, folder: Path) -> dict[str, dict[str, int]]:
    """Write copies.parquet and each split's own passages. Returns how many there are, by table, for the statistics."""
    passages, splits = prepared / "passages.parquet", (*SPLITS, UNLABELLED)
    queries = {split: prepared / "queries" / f"{split}.parquet" for split in splits}
    asked = (
        pl.read_parquet(path, columns=["qid", "text"]).with_row_index("query").with_columns(split=pl.lit(split))
        for split, path in queries.items()
    )
    identical, own = find_identical(passages, pl.concat(asked))
    copies = pl.DataFrame({"passage": identical.copies, "first": identical.firsts})
    write_table(folder / "copies.parquet", COPIES, [copies.to_arrow()])
    counts = {"passages": {"copies_of_another": len(copies)}}
    for split, table in queries.items():
        pairs = relevant_pairs(table, prepared / "qrels" / f"{split}.parquet", passages)
        mine = _own_pairs(own.filter(pl.col("split") == split), pairs, identical)
        write_table(folder / f"{split}.parquet", OWN, [mine.to_arrow()])
        counts[split] = {"queries_that_are_passages": mine["query"].n_unique()}
    return counts


def find_identical(passages: Path, queries: pl.DataFrame) -> tuple[Identical, pl.DataFrame]:
    """The copies of a passages table, and the queries that are passages, with the row of the passage.

    A query is a passage itself if its text is the passage's text, with its title or without, or if both have the same
    id and the text of one begins with the other: the same id alone says nothing where both are counted from 0. It is
    all passages that its text holds of a document with its id.

    Memory: 8 bytes a passage, and the queries. `queries` has columns qid, text and others, which come back, but for
    text, with `passage`.
    """
    asked, first = queries.with_columns(asked=without_case(one_form(pl.col("text")))).drop("text"), 0
    hashes, own = [np.empty(0, dtype=np.uint64)], list[pl.DataFrame]()
    for batch in tqdm(open_table(passages, PASSAGES).iter_batches(tables.ROW_GROUP), desc="identical", unit=" batches"):
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
    same_id = texts.join(queries.with_columns(pid="qid"), on="pid").filter(
        pl.any_horizontal(
            one.str.starts_with(other)
            for name in ("text", "whole")
            for one, other in ((pl.col(name), pl.col("asked")), (pl.col("asked"), pl.col(name)))
        )
    )
    parts = texts.with_columns(qid=pl.col("pid").str.extract(r"^(.*)#[0-9]+$")).drop_nulls("qid")
    held = parts.join(queries, on="qid").filter(pl.col("asked").str.contains(pl.col("text"), literal=True))
    same_text = [texts.join(queries, left_on=name, right_on="asked") for name in ("text", "whole")]
    wanted = [*(name for name in queries.columns if name != "asked"), "passage"]
    return pl.concat(found.select(wanted) for found in (same_id, held, *same_text))


def _copies(hashes: Rows) -> tuple[Rows, Rows]:
    """The rows that repeat an earlier one, and the first ones that they repeat. *Shape:* (n,) -> (c,) twice."""
    ordered = np.sort(hashes)
    rows = np.flatnonzero(contains(ordered[1:][ordered[1:] == ordered[:-1]], hashes))
    _, first, text = np.unique(hashes[rows], return_index=True, return_inverse=True)
    firsts = rows[first][text]
    return rows[firsts != rows], firsts[firsts != rows]


def _own_pairs(own: pl.DataFrame, relevant: pl.DataFrame, identical: Identical) -> pl.DataFrame:
    """Own passages with all their copies, unless one of these is relevant: columns query, passage, sorted."""
    if own.is_empty():
        return NO_PAIRS
    firsts = (
        one.select(
            pl.col("query").cast(pl.Int32), first=pl.Series(identical.first(one["passage"].to_numpy().astype(np.int64)))
        )
        for one in (own, relevant)
    )
    left = next(firsts).unique().join(next(firsts), on=["query", "first"], how="anti")
    passages, place = identical.with_copies(left["first"].to_numpy())
    return pl.DataFrame({"query": left["query"].gather(place), "passage": passages}).sort("query", "passage")


def one_form(text: pl.Expr) -> pl.Expr:
    """What texts that count as the same have in common: NFKC of what is seen, one blank for a run of white space."""
    beyond_ascii = pl.when(text.str.len_bytes() > text.str.len_chars()).then(text)  # NFKC is slow, and keeps ASCII
    seen = beyond_ascii.str.replace_all(f"[{INVISIBLE}]", "").str.normalize("NFKC")
    return seen.fill_null(text).str.replace_all(SPACES, " ").str.strip_chars()


def without_case(text: pl.Expr) -> pl.Expr:
    """Texts in one case, as `base/words.py` has them: lower case, but for what upper case writes otherwise."""
    return text.str.to_lowercase().str.replace_many({"ß": "ss", "i\u0307": "i"})
