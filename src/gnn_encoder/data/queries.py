"""Queries from elsewhere: source `log`, and what a user brings beside the data: queries without labels, generated ones.

docs/data.md and, of generated queries, docs/branches.md have the files' forms. Logged queries that differ only in case,
punctuation, white space and invisible characters are one query, written as it was most often; its id is a hash of what
they have in common. The counts of a query and a passage are added up.
"""

import logging
from collections.abc import Iterable, Iterator
from functools import cache, partial
from hashlib import blake2b
from itertools import cycle, islice
from pathlib import Path

import polars as pl
import pyarrow as pa

from gnn_encoder.base.distributed import tqdm
from gnn_encoder.base.errors import UserError, shorten
from gnn_encoder.base.judgements import one_form, without_case
from gnn_encoder.base.tables import QUERIES, SPLITS, batched, read_column, write_part, write_table
from gnn_encoder.data import reading
from gnn_encoder.data.formats import read_corpus
from gnn_encoder.data.reading import DataSource, Judgement, Place, Query, check_id, check_string, check_text
from gnn_encoder.pipeline.params import Data

log = logging.getLogger(__name__)
FILE = "dual_cross.generator.file"
PREDICTED = pa.schema([("pid", pa.string()), ("text", pa.string())])
WAITING = 2**20  # rows of a log that are in memory before they are added up
PASSAGES_AT_A_TIME = 2**17  # whose queries are in memory together: some hundred megabytes
LOGS = ("log.tsv", "log.jsonl")
LARGEST = 10**12  # so that millions of counts add up in 64 bits
DIGITS = 16  # hexadecimal: 64 bits
PUNCTUATION = r"[\p{P}--[#%&@]]+"  # signs that tell two queries apart stay: c# is not c, and 50% is not 50
LOGGED = pl.Schema({"text": pl.String(), "pid": pl.String(), "count": pl.Int64(), "rows": pl.Int64()})


def open_log(folder: Path, data: Data) -> DataSource:
    """A folder of a corpus and its query log. Memory: the pairs of a query and a passage."""
    corpus, path = reading.require(folder, "corpus.jsonl"), reading.require(folder, *LOGS)
    if others := [other for name in LOGS if (other := reading.find(folder, name)) and other != path]:
        raise UserError(f"{path}: {others[0].name} is there as well; keep one log")
    logged = cache(partial(read_log, path, data))

    def queries(split: str) -> Iterator[tuple[Place, Query]]:
        chosen = logged()[0].filter(split=split).unique("qid", keep="first", maintain_order=True)
        return ((str(path), Query(*row)) for row in chosen.select("qid", "text").iter_rows())

    def judgements(split: str) -> Iterator[tuple[Place, Judgement]]:
        chosen = logged()[0].filter(split=split).select("qid", "pid", "count")
        return ((str(path), Judgement(qid, pid, 1, count)) for qid, pid, count in chosen.iter_rows())

    return DataSource(
        files=[corpus, path],
        passages=partial(read_corpus, corpus),
        queries={split: partial(queries, split) for split in SPLITS},
        judgements={split: partial(judgements, split) for split in SPLITS},
        dropped=lambda: logged()[1],
        lenient=True,
    )


def read_log(path: Path, data: Data) -> tuple[pl.DataFrame, dict[str, int]]:
    """The pairs that a log says, sorted by ids, and how many rows and pairs are left out, by why.

    Columns qid, text, split, pid, count.
    """
    rows = tqdm(_rows(path), desc="log", unit=" rows")
    found = _summed(pl.DataFrame(batch, LOGGED, orient="row") for batch in batched(rows))
    found = found.with_columns(same=normal_form(pl.col("text")))
    has_word = found["same"].str.contains(r"[\p{L}\p{N}]")
    wordless, found = found.filter(~has_word)["rows"].sum(), found.filter(has_word)
    # Each query as it was written most often; of several such texts the first in the alphabet.
    texts = _added(found, "same", "text").sort("same", -pl.col("count"), "text").unique("same", keep="first")
    every = _added(found, "same", "pid")
    pairs = every.filter(pl.col("count") >= data.min_count)
    if pairs.is_empty():
        what = f"no query with a letter or a digit was logged {data.min_count} times or more with a passage"
        raise UserError(f"{path}: {what}; log more, correct the counts, or lower data.min_count")
    queries = texts.filter(pl.col("same").is_in(pairs["same"].implode())).select("same", "text")
    qids = [stable_hash(same) for same in queries["same"]]
    splits = [split_of(qid, dev=data.dev_fraction, test=data.test_fraction) for qid in qids]
    if absent := [split for split in SPLITS if split not in splits]:
        cure = "log more, or change data.test_fraction or data.dev_fraction"
        raise UserError(f"{path}: none of {len(queries)} queries is in split {absent[0]}; {cure}")
    queries = queries.with_columns(qid=pl.Series(qids), split=pl.Series(splits))
    left_out = {"rows_without_a_word": int(wordless), "pairs_below_min_count": len(every) - len(pairs)}
    pairs = pairs.join(queries, on="same").select("qid", "text", "split", "pid", "count").sort("qid", "pid")
    return pairs, {name: count for name, count in left_out.items() if count}


def _summed(parts: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """All rows, equal ones added up whenever as many wait as there are pairs: memory is that of the pairs."""
    found, waiting, rows = LOGGED.to_frame(), list[pl.DataFrame](), 0
    for part in parts:
        waiting.append(part)
        rows += len(part)
        if rows > max(len(found), WAITING):
            found, waiting, rows = _added(pl.concat([found, *waiting]), "text", "pid"), [], 0
    return _added(pl.concat([found, *waiting]), "text", "pid")


def _added(found: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """Rows with equal keys as one. Whole numbers are added up, so that the order of the threads does not matter."""
    return found.group_by(keys).agg(pl.col("count", "rows").sum())


def normal_form(text: pl.Expr) -> pl.Expr:
    """What equal queries have in common: the one form of their texts, in lower case and without punctuation."""
    return without_case(one_form(text.str.normalize("NFKC").str.replace_all(PUNCTUATION, " ")))


def _rows(path: Path) -> Iterator[tuple[str, str, int, int]]:
    """The rows of a log of either form as `LOGGED`, checked."""
    for place, row in reading.read_named(path, ("query", "pid"), ("count",)):
        text = " ".join(check_string(place, "query", row.get("query")).split())
        pid, count = row.get("pid"), row.get("count")
        number = 1 if count in (None, "") else reading.whole(count)
        if number is None or not 0 <= number <= LARGEST:
            raise UserError(f"{place}, count: {shorten(count)} is not a whole number from 0 to {LARGEST:,}; correct it")
        yield text, check_id(place, "pid", str(pid) if type(pid) is int else pid), number, 1


def stable_hash(text: str) -> str:
    """64 bits of BLAKE2b as 16 hexadecimal digits."""
    return blake2b(text.encode(), digest_size=DIGITS // 2).hexdigest()


def split_of(key: str, *, dev: float, test: float) -> str:
    """The split that a `stable_hash` falls into: a query keeps it while others come and go, and whatever the seed is.

    `test` is the share of all queries that is test, `dev` the share of the others that is dev.
    """
    place = int(key, 16) / 16**DIGITS
    if place < test:
        return "test"
    return "dev" if place < test + (1 - test) * dev else "train"


def own_queries(path: Path, others: list[pl.Series]) -> pl.DataFrame:
    """A user's queries without labels as a queries table, each text once.

    Queries that other tables have are left out, whatever their case, white space and punctuation: those of train would
    stay in the graph when Masked Graph Training takes the labelled one out, and those of dev and test would take part
    in the graph that they are judged by. `others` has the texts of these, and of queries with hidden labels.
    """
    texts = pl.Series("text", list(read_texts(path)), pl.String)
    keys, taken = query_keys(texts), query_keys(pl.concat(others))
    kept = texts.filter(keys.is_first_distinct() & ~keys.is_in(taken.implode()))
    told = "%s: %d queries; %d more repeat one of them or of the data's, and are left out"
    log.info(told, path, len(kept), len(texts) - len(kept))
    qids = [f"unlabelled-{number}" for number in range(len(kept))]
    return pl.DataFrame({"qid": qids, "text": kept, "answers": [[]] * len(kept)}, pl.Schema(QUERIES))


def read_texts(path: Path) -> Iterator[str]:
    """Stream a user's queries: a text file with one a line."""
    return (check_text(place, "query", " ".join(line.split())) for place, line in reading.read_lines(path))


def query_keys(texts: pl.Series) -> pl.Series:
    """What equal queries have in common."""
    text, same = pl.col("text"), normal_form(pl.col("text"))
    key = pl.when(same == "").then(text.str.strip_chars()).otherwise(same)  # "?" is no "!"
    return texts.to_frame("text").select(key.alias("key"))["key"]


def read_generated(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Stream the file's lines: a pid, and queries of this passage; those of white space alone are passed over."""
    for place, row in reading.read_named(path, ("id", "query")):
        key = "id" if "id" in row else "_id"
        if not isinstance(queries := row.get("predicted_queries", [row.get("query")]), list):
            raise UserError(f"{place}, predicted_queries: {shorten(queries)} is not a list; write one of strings")
        texts = (" ".join(check_string(place, "query", query).split()) for query in queries)
        yield check_id(place, key, row.get(key)), [text for text in texts if text]


def write_generated(path: Path, passages: Path, target: Path, work: Path, per_passage: int) -> None:
    """Write the table of generated queries: row r is query r % per_passage of passage r // per_passage.

    They are the first `per_passage` of each passage in the file's order; a passage with fewer has them again from its
    first on. Lines of ids that are no passage's are passed over. The passages' ids are in memory.
    """
    lines = tqdm(read_generated(path), desc="generated queries", unit=" lines")
    pairs, file = ((pid, text) for pid, texts in lines for text in texts[:per_passage]), work / "given.parquet"
    write_part(file, PREDICTED, (pa.table(list(zip(*some, strict=True)), PREDICTED.names) for some in batched(pairs)))
    pids = read_column(passages, "pid").to_frame()
    written = pl.scan_parquet(file).select("pid").unique().collect(engine="streaming")
    if len(lacking := pids.join(written, on="pid", how="anti", maintain_order="left")["pid"]):
        cure = f"add lines for them, or set {FILE} to null, so that queries are generated"
        raise UserError(f"{path}: {len(lacking)} passages without a query, the first {lacking[0]!r}; {cure}")

    def tables() -> Iterator[pa.Table]:
        for part in pids.iter_slices(PASSAGES_AT_A_TIME):
            rows = pl.scan_parquet(file, row_index_name="line").join(part.lazy(), on="pid", how="semi")
            lines = rows.collect(engine="streaming").sort("line")
            listed = lines.group_by("pid").agg(pl.col("text").head(per_passage))
            found = part.join(listed, on="pid", how="left", maintain_order="left")
            texts = [text for of in found["text"] for text in islice(cycle(of), per_passage)]
            qids = [f"{pid}-{number}" for pid in part["pid"] for number in range(per_passage)]
            yield pa.table([qids, texts, [[]] * len(texts)], schema=QUERIES)

    write_table(target, QUERIES, tables())
