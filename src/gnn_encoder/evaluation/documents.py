"""Runs and judgements by document, where texts were cut into passages: passage `D#3` is a part of document D."""

import polars as pl

DOCUMENT = pl.col("pid").str.replace(r"#[0-9]+$", "")


def best_passages(run: pl.DataFrame) -> pl.DataFrame:
    """Keep the best passage of each document. Its rank becomes the document's, so that no document fills two ranks.

    Args:
        run: columns qid, pid, rank, among others.
    """
    best = run.sort("rank", maintain_order=True).unique(
        [pl.col("qid"), DOCUMENT.alias("document")], keep="first", maintain_order=True
    )
    return best.with_columns(rank=pl.int_range(1, pl.len() + 1).over("qid").cast(run.schema["rank"]))


def as_documents(table: pl.DataFrame) -> pl.DataFrame:
    """A run or judgements with the documents' ids in place of the passages'."""
    return table.with_columns(pid=DOCUMENT)


def judged_documents(qrels: pl.DataFrame) -> pl.DataFrame:
    """Judgements of documents: a document has the best grade of its passages.

    Args:
        qrels: columns qid, pid, grade, of passages.
    """
    return as_documents(qrels).group_by("qid", "pid", maintain_order=True).agg(pl.col("grade").max())
