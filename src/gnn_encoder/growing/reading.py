"""What users give: passages to add, ids to delete; and where ids are in a table."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import polars as pl
import pyarrow as pa

from gnn_encoder.base.distributed import tqdm
from gnn_encoder.base.errors import UserError
from gnn_encoder.base.tables import PASSAGES, batched, count_rows, write_table
from gnn_encoder.data.formats import read_corpus
from gnn_encoder.data.reading import Passage, Place, check_id, read_lines, unique


def write_passages(path: Path, target: Path) -> None:
    """Check a file of passages, as in a BEIR corpus, and write it as a passages table; rows are streamed."""
    found = unique(lambda: _with_text(path), "_id")
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
        found += [check_id(place, "pid", line.strip()) for place, line in read_lines(path)]
    if not found:
        raise UserError("no passage is named: give ids, or a file with one a line as --file")
    return pl.Series("pid", found, pl.String()).unique(maintain_order=True)


def rows_of(passages: Path, pids: pl.Series) -> pl.DataFrame:
    """The ids that a passages table has among some: columns row, pid. Its column of ids is read in parts."""
    table = pl.scan_parquet(passages).select("pid").with_row_index("row")
    return table.filter(pl.col("pid").is_in(pids.implode())).collect(engine="streaming").sort("row")


def _with_text(path: Path) -> Iterator[tuple[Place, Passage]]:
    for place, passage in read_corpus(path):
        if (found := passage.with_text()) is None:
            raise UserError(f"{place}, text: there is none, nor a title; give it one or remove the row")
        yield place, found
