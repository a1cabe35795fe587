"""The table of unlabelled queries: first the training queries whose labels are hidden, then a user's own queries."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from gnn_encoder.core import distributed
from gnn_encoder.core.errors import UserError
from gnn_encoder.core.records import QUERIES, open_parquet, open_table
from gnn_encoder.core.storage.tables import batched, count_rows, write_table
from gnn_encoder.data.lines import read_lines
from gnn_encoder.data.rows import Place, check_text


def write_queries(path: Path, hidden: Path, own: Path | None) -> None:
    """Write the table of unlabelled queries.

    Args:
        hidden: table of the training queries whose labels are hidden.
        own: a user's own queries: a text file with one query per line, plain or gzip, or a Parquet table with a column
            `text`, such as that of the generated queries. None: there are none.

    Raises:
        UserError: `own` is a table without that column, a query is empty, or there is no query at all.
    """

    def queries() -> Iterator[pa.RecordBatch]:
        yield from open_table(hidden, QUERIES).iter_batches()
        first = 0
        for texts in batched(read_texts(own) if own else ()):
            qids = [f"unlabelled-{first + i}" for i in range(len(texts))]
            yield pa.record_batch([qids, texts, [[] for _ in texts]], QUERIES)
            first += len(texts)

    write_table(path, QUERIES, queries())
    distributed.barrier()
    if not count_rows(path):
        raise UserError(
            "pair: no unlabelled queries; set pair.unlabelled_fraction above 0 or pair.unlabelled to a file of them, "
            "or pair.pseudo_labels to false"
        )


def own_file(name: str | None) -> Path | None:
    """The file that `pair.unlabelled` names, or None if it is null.

    Raises:
        UserError: there is no such file.
    """
    if name is None:
        return None
    if not Path(name).is_file():
        raise UserError(f"pair.unlabelled is {name!r}: no such file; correct it, or set it to null")
    return Path(name)


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
        raise UserError(f"{path}: has no column text, which pair.unlabelled must have")
    row = 0
    for batch in table.iter_batches(columns=["text"]):
        for text in batch.column("text").to_pylist():
            yield check_text(Place(path, f"row {row}"), "query", text)
            row += 1
