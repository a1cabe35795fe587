"""A user's queries without labels, `data.unlabelled`: they need no judgement, and stand in no split."""

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path

import polars as pl
import pyarrow as pa

from gnn_encoder.core.errors import UserError
from gnn_encoder.core.records import QUERIES, open_parquet, open_table
from gnn_encoder.core.storage.tables import batched
from gnn_encoder.data.lines import read_lines
from gnn_encoder.data.query_log import normal_form
from gnn_encoder.data.rows import Place, check_text

log = logging.getLogger(__name__)


def own_file(name: str | None) -> Path | None:
    """The file that `data.unlabelled` names, or None if it is null.

    Raises:
        UserError: there is no such file.
    """
    if name is None:
        return None
    if not Path(name).is_file():
        raise UserError(f"data.unlabelled is {name!r}: no such file; correct it, or set it to null")
    return Path(name)


def own_queries(path: Path, others: Iterable[Path]) -> Iterator[pa.RecordBatch]:
    """Stream a user's queries as rows of a queries table, each text once.

    Queries that other tables have are left out, whatever their case, white space and punctuation: those of train would
    stay in the graph when Masked Graph Training takes the labelled one out, and those of dev and test would take part
    in the graph that they are judged by.

    Args:
        path: a text file with one query per line, plain or gzip, or a Parquet table with a column `text`, such as that
            of the generated queries.
        others: the queries tables of the splits, and that of queries with hidden labels.

    Raises:
        UserError: `path` is a table without that column, or a query is empty.
    """
    tables = [pl.DataFrame(open_table(table, QUERIES).read(columns=["text"]))["text"] for table in others]
    seen = _keys(pl.concat(tables)).unique()
    first = left_out = 0
    for batch in batched(read_texts(path)):
        texts = pl.Series("text", batch, pl.String)
        keys = _keys(texts)
        kept = keys.is_first_distinct() & ~keys.is_in(seen.implode())
        texts, seen = texts.filter(kept), pl.concat([seen, keys.filter(kept)])
        qids = [f"unlabelled-{first + i}" for i in range(len(texts))]
        yield pa.record_batch([qids, texts.to_list(), [[] for _ in qids]], QUERIES)
        first, left_out = first + len(texts), left_out + len(batch) - len(texts)
    log.info("%s: %d queries; %d more repeat one of them or of the data's, and are left out", path, first, left_out)


def read_texts(path: Path) -> Iterable[str]:
    """Stream a user's queries, checking each.

    Raises:
        UserError: the file is a table without a column `text`, or a query is empty.
    """
    if path.suffix != ".parquet":
        for number, line in read_lines(path):
            yield check_text(Place(path, f"line {number}"), "query", " ".join(line.split()))
        return
    table = open_parquet(path)
    if "text" not in table.schema_arrow.names:
        raise UserError(f"{path}: has no column text, which data.unlabelled must have")
    row = 0
    for batch in table.iter_batches(columns=["text"]):
        for text in batch.column("text").to_pylist():
            yield check_text(Place(path, f"row {row}"), "query", text)
            row += 1


def _keys(texts: pl.Series) -> pl.Series:
    """64-bit hashes of what equal queries have in common: 8 bytes a query stay in memory."""
    text = pl.col("text")
    same = pl.when(normal_form(text) == "").then(text.str.strip_chars()).otherwise(normal_form(text))  # "?" is no "!"
    return texts.to_frame("text").select(same.hash())["text"]
