"""What users give: passages to add, ids to delete; and where ids are in a table."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from gnn_encoder.base.distributed import tqdm
from gnn_encoder.base.errors import UserError
from gnn_encoder.base.tables import PASSAGES, batched, count_rows, write_table
from gnn_encoder.data.beir import passage_of
from gnn_encoder.data.lines import read_json_lines, read_lines
from gnn_encoder.data.rows import Passage, Place, check_id, unique


def write_passages(path: Path, target: Path) -> None:
    """Check a file of passages, as in a BEIR corpus, and write it as a passages table; rows are streamed."""
    found = unique(lambda: read_json_lines(path, _with_text), "_id")
    rows = tqdm(found, desc=f"read {path.name}", unit=" passages")
    batches = batched(passage for _, passage in rows)
    tables = (pa.table([[*column] for column in zip(*batch, strict=True)], schema=PASSAGES) for batch in batches)
    write_table(target, PASSAGES, tables)
    if not count_rows(target):
        raise UserError(f"{path}: is empty; write one passage a line")


def read_pids(pids: Iterable[str], path: Path | None) -> pl.Series:
    """Ids from the command line and from a file with one a line, each once."""
    found = list(pids)
    if path is not None:
        found += [pid for _, pid in read_lines(path, lambda place, line: check_id(place, "pid", line.strip()))]
    if not found:
        raise UserError("no passage is named: give ids, or a file with one a line as --file")
    return pl.Series("pid", found, pl.String()).unique(maintain_order=True)


def rows_of(passages: Path, pids: pl.Series) -> pl.DataFrame:
    """The ids that a passages table has among some: columns row, pid. Its column of ids is read in parts."""
    table = pl.scan_parquet(passages).select("pid").with_row_index("row")
    return table.filter(pl.col("pid").is_in(pids.implode())).collect(engine="streaming").sort("row")


def _with_text(place: Place, row: dict[str, Any]) -> Passage:
    found = passage_of(place, row).with_text()
    if found is None:
        raise UserError(f"{place}, text: there is none, nor a title; give it one or remove the row")
    return found
