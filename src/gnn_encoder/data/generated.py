"""A user's file of queries that were generated for the passages, as doc2query and docTTTTTquery publish theirs.

    .tsv     pid, query                    one query a line, without a header
    .jsonl   id or _id, predicted_queries  the queries of a passage; or `query`, one of them

Both may be gzip. A passage may have any number of lines, anywhere in the file.
"""

from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from gnn_encoder.base.distributed import tqdm
from gnn_encoder.base.errors import UserError, shorten
from gnn_encoder.base.tables import QUERIES, batched, write_part, write_table
from gnn_encoder.data.lines import read_columns, read_json_lines
from gnn_encoder.data.rows import Place, check_id, check_string

NAME = "dual_cross.generator.file"
GIVEN = pa.schema([("pid", pa.string()), ("text", pa.string())])
PASSAGES_AT_A_TIME = 2**17  # whose queries are in memory together: some hundred megabytes
Given = tuple[str, list[str]]  # a pid, and queries of this passage


def read_generated(path: Path) -> Iterator[tuple[Place, Given]]:
    """Stream the file's lines; queries of white space alone are passed over."""
    form = path.name.removesuffix(".gz").rpartition(".")[2]
    if form == "tsv":
        return read_columns(path, ("pid", "query"), lambda place, row: _given(place, "pid", row[0], row[1:]))
    if form == "jsonl":
        return read_json_lines(path, _of_object)
    raise UserError(f"{NAME} is {str(path)!r}: its name must end in .tsv or .jsonl, perhaps with .gz; rename it")


def _of_object(place: Place, row: dict[str, Any]) -> Given:
    key = "id" if "id" in row else "_id"
    if not isinstance(queries := row.get("predicted_queries", [row.get("query")]), list):
        raise UserError(f"{place}, predicted_queries: {shorten(queries)} is not a list; write one of strings")
    return _given(place, key, row.get(key), queries)


def _given(place: Place, key: str, pid: object, queries: list[Any]) -> Given:
    texts = (" ".join(check_string(place, "query", query).split()) for query in queries)
    return check_id(place, key, pid), [text for text in texts if text]


def write_given(path: Path, passages: Path, target: Path, work: Path, per_passage: int) -> None:
    """Write the table of generated queries: row r is query r % per_passage of passage r // per_passage.

    They are the first `per_passage` of each passage in the file's order; a passage with fewer has them again from its
    first on. Lines of ids that are no passage's are passed over.

    Args:
        passages: the passages table; its ids are in memory.
        target: the table to write, in the QUERIES schema without answers.
        work: scratch folder, for the file as a Parquet table.
    """
    lines = tqdm(read_generated(path), desc="generated queries", unit=" lines")
    rows = ((pid, text) for _, (pid, texts) in lines for text in texts[:per_passage])
    given = work / "given.parquet"
    write_part(given, GIVEN, (pa.table(list(zip(*batch, strict=True)), GIVEN.names) for batch in batched(rows)))
    pids = pl.read_parquet(passages, columns=["pid"])

    def tables() -> Iterator[pa.Table]:
        for part in pids.iter_slices(PASSAGES_AT_A_TIME):
            texts = _of_passages(given, part, path, per_passage)
            qids = [f"{pid}-{number}" for pid in part["pid"] for number in range(per_passage)]
            yield pa.table([qids, texts, [[]] * len(texts)], schema=QUERIES)

    write_table(target, QUERIES, tables())


def _of_passages(given: Path, part: pl.DataFrame, path: Path, per_passage: int) -> list[str]:
    """The queries of some passages, `per_passage` for each, in the passages' order. `part`: column pid."""
    found = pl.scan_parquet(given, row_index_name="line").join(part.lazy(), on="pid", how="semi")
    listed = found.collect(engine="streaming").sort("line").group_by("pid").agg(pl.col("text").head(per_passage))
    texts = part.join(listed, on="pid", how="left", maintain_order="left")
    if lacking := texts.filter(pl.col("text").is_null())["pid"].to_list():
        cure = f"add lines for them, or set {NAME} to null, so that queries are generated"
        raise UserError(f"{path}: {len(lacking)} passages without a query, the first {lacking[0]!r}; {cure}")
    return [text for of in texts["text"] for text in islice(cycle(of), per_passage)]
