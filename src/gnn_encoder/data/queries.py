"""Queries that a user brings beside the data's own: some without labels, and some generated for the passages.

Generated queries come as doc2query and docTTTTTquery publish theirs, in a file that may be gzip:

    .tsv     pid, query                    one query a line, without a header
    .jsonl   id or _id, predicted_queries  the queries of a passage; or `query`, one of them

A passage may have any number of lines, anywhere in the file.
"""

import logging
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

import polars as pl
import pyarrow as pa

from gnn_encoder.base.distributed import tqdm
from gnn_encoder.base.errors import UserError, shorten
from gnn_encoder.base.tables import QUERIES, batched, write_part, write_table
from gnn_encoder.data.query_log import normal_form
from gnn_encoder.data.reading import (
    check_id,
    check_string,
    check_text,
    read_columns,
    read_json_lines,
    read_lines,
    read_parquet,
)

log = logging.getLogger(__name__)

FILE = "dual_cross.generator.file"
PREDICTED = pa.schema([("pid", pa.string()), ("text", pa.string())])
PASSAGES_AT_A_TIME = 2**17  # whose queries are in memory together: some hundred megabytes


def own_file(name: str | None) -> Path | None:
    """The file that `data.unlabelled` names, or None if it is null."""
    if name is None:
        return None
    if not Path(name).is_file():
        raise UserError(f"data.unlabelled is {name!r}: no such file; correct it, or set it to null")
    return Path(name)


def own_queries(path: Path, others: list[pl.Series]) -> pl.DataFrame:
    """A user's queries without labels as a queries table, each text once.

    Queries that other tables have are left out, whatever their case, white space and punctuation: those of train would
    stay in the graph when Masked Graph Training takes the labelled one out, and those of dev and test would take part
    in the graph that they are judged by. `others` has the texts of these, and of queries with hidden labels.
    """
    texts = pl.Series("text", list(read_texts(path)), pl.String)
    keys, taken = query_keys(texts), query_keys(pl.concat(others).alias("text"))
    kept = texts.filter(keys.is_first_distinct() & ~keys.is_in(taken.implode()))
    told = "%s: %d queries; %d more repeat one of them or of the data's, and are left out"
    log.info(told, path, len(kept), len(texts) - len(kept))
    qids = [f"unlabelled-{number}" for number in range(len(kept))]
    answers = pl.Series([[]] * len(kept), dtype=pl.List(pl.String))
    return pl.DataFrame({"qid": pl.Series(qids, dtype=pl.String), "text": kept, "answers": answers})


def read_texts(path: Path) -> Iterator[str]:
    """Stream a user's queries: a text file with one a line, or a Parquet table with a column `text`."""
    if path.suffix == ".parquet":
        return (check_text(place, "query", row["text"]) for place, row in read_parquet(path, ["text"]))
    return (check_text(place, "query", " ".join(line.split())) for place, line in read_lines(path))


def query_keys(texts: pl.Series) -> pl.Series:
    """What equal queries have in common."""
    text, same = pl.col("text"), normal_form(pl.col("text"))
    whole = pl.when(same == "").then(text.str.strip_chars()).otherwise(same)  # "?" is no "!"
    return texts.to_frame("text").select(whole)["text"]


def read_generated(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Stream the file's lines: a pid, and queries of this passage; those of white space alone are passed over."""
    form = path.name.removesuffix(".gz").rpartition(".")[2]
    if form not in ("tsv", "jsonl"):
        raise UserError(f"{FILE} is {str(path)!r}: its name must end in .tsv or .jsonl, perhaps with .gz; rename it")
    rows = read_columns(path, ("id", "query")) if form == "tsv" else read_json_lines(path)
    for place, row in rows:
        found = dict(zip(("id", "query"), row, strict=True)) if isinstance(row, list) else row
        key = "id" if "id" in found else "_id"
        if not isinstance(queries := found.get("predicted_queries", [found.get("query")]), list):
            raise UserError(f"{place}, predicted_queries: {shorten(queries)} is not a list; write one of strings")
        texts = (" ".join(check_string(place, "query", query).split()) for query in queries)
        yield check_id(place, key, found.get(key)), [text for text in texts if text]


def write_generated(path: Path, passages: Path, target: Path, work: Path, per_passage: int) -> None:
    """Write the table of generated queries: row r is query r % per_passage of passage r // per_passage.

    They are the first `per_passage` of each passage in the file's order; a passage with fewer has them again from its
    first on. Lines of ids that are no passage's are passed over. The passages' ids are in memory.
    """
    lines = tqdm(read_generated(path), desc="generated queries", unit=" lines")
    rows = ((pid, text) for pid, texts in lines for text in texts[:per_passage])
    file = work / "given.parquet"
    write_part(file, PREDICTED, (pa.table(list(zip(*some, strict=True)), PREDICTED.names) for some in batched(rows)))
    pids = pl.read_parquet(passages, columns=["pid"])

    def tables() -> Iterator[pa.Table]:
        for part in pids.iter_slices(PASSAGES_AT_A_TIME):
            lines = pl.scan_parquet(file, row_index_name="line").join(part.lazy(), on="pid", how="semi")
            listed = (
                lines.collect(engine="streaming").sort("line").group_by("pid").agg(pl.col("text").head(per_passage))
            )
            found = part.join(listed, on="pid", how="left", maintain_order="left")
            if lacking := found.filter(pl.col("text").is_null())["pid"].to_list():
                cure = f"add lines for them, or set {FILE} to null, so that queries are generated"
                raise UserError(f"{path}: {len(lacking)} passages without a query, the first {lacking[0]!r}; {cure}")
            texts = [text for of in found["text"] for text in islice(cycle(of), per_passage)]
            qids = [f"{pid}-{number}" for pid in part["pid"] for number in range(per_passage)]
            yield pa.table([qids, texts, [[]] * len(texts)], schema=QUERIES)

    write_table(target, QUERIES, tables())
