"""What users give: passages to add, ids to delete; and where ids are in a table."""

from collections.abc import Iterable
from pathlib import Path

import polars as pl
import pyarrow as pa

from gnn_encoder.core.errors import UserError
from gnn_encoder.core.progress import tqdm
from gnn_encoder.core.records import PASSAGES
from gnn_encoder.core.storage.tables import batched, write_table
from gnn_encoder.data.beir import read_corpus
from gnn_encoder.data.lines import read_lines
from gnn_encoder.data.rows import check_id, check_text, check_unique


def write_passages(path: Path, target: Path) -> None:
    """Check a file of passages, as in a BEIR corpus, and write it as a passages table; rows are streamed."""
    _check_file(path)
    rows = tqdm(read_corpus(path), desc=f"read {path.name}", unit=" passages", disable=None)
    batches = batched(passage._replace(text=check_text(place, "text", passage.text)) for place, passage in rows)
    tables = (pa.table([[*column] for column in zip(*batch, strict=True)], schema=PASSAGES) for batch in batches)
    write_table(target, PASSAGES, tables)
    check_unique(pl.read_parquet(target, columns=["pid"])["pid"], lambda: read_corpus(path), "_id")


def read_pids(pids: Iterable[str], path: Path | None) -> pl.Series:
    """Ids from the command line and from a file with one a line, each once."""
    found = list(pids)
    if path is not None:
        _check_file(path)
        found += [pid for _, pid in read_lines(path, lambda place, line: check_id(place, "pid", line))]
    if not found:
        raise UserError("no passage is named: give ids, or a file with one a line as --file")
    return pl.Series("pid", found, pl.String()).unique(maintain_order=True)


def rows_of(passages: Path, pids: pl.Series) -> pl.DataFrame:
    """The ids that a passages table has among some: columns row, pid. Its column of ids is read in parts."""
    table = pl.scan_parquet(passages).select("pid").with_row_index("row")
    return table.filter(pl.col("pid").is_in(pids.implode())).collect(engine="streaming").sort("row")


def _check_file(path: Path) -> None:
    if not path.is_file():
        raise UserError(f"{path}: no such file; correct the path")
    if path.stat().st_size == 0:
        raise UserError(f"{path}: is empty; write one row a line")
