"""Turns a source into the tables of passages, queries and qrels: checked, with the splits cut and sampled."""

import logging
import time
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from gnn_encoder.core.errors import UserError
from gnn_encoder.core.progress import tqdm
from gnn_encoder.core.records import COUNTS, PASSAGES, QRELS, QUERIES, SPLITS, UNLABELLED, open_parquet, open_table
from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.core.storage.tables import ROW_GROUP, batched, count_rows, write_table
from gnn_encoder.data.lines import read_lines
from gnn_encoder.data.params import Data
from gnn_encoder.data.query_log import normal_form
from gnn_encoder.data.rows import DataSource, Ids, Judgement, Place, check_text

log = logging.getLogger(__name__)

# Each draw has its own stream of random numbers, so that another sample size does not change which queries are dev.
CUT, SAMPLE, HIDE = 1, 2, 3


class Split(NamedTuple):
    """The queries that were chosen for a split."""

    origin: str  # the source's split that they come from
    qids: pl.Series


def prepare(data: Data, source: DataSource, folder: Path, *, seed: int, unlabelled_fraction: float = 0.0) -> None:
    """Write passages.parquet, queries/, qrels/, counts.parquet and statistics.json to `folder`.

    Args:
        unlabelled_fraction: of the training queries that `data.train_queries` leaves out, so many become unlabelled, as
            a share of all. PAIR gives them pseudo-labels; qrels/unlabelled.parquet keeps the hidden labels, by which
            the pseudo-labels are judged. The user's own unlabelled queries stand after them.

    Memory: 8 bytes a passage, the judgements, and one batch of rows; with queries of the user's, those of the splits.

    Raises:
        UserError: the source breaks a rule; the message names the file and the row.
    """
    own = own_file(data.unlabelled)
    pids = _write_passages(source, folder / "passages.parquet")
    judged = {split: _checked(source, split, read_judgements(source, split), pids) for split in source.splits}
    queries = {split: _queries(source, split, table) for split, table in judged.items()}
    splits = choose_queries(data, queries, seed, unlabelled_fraction)
    tables = {name: folder / "queries" / f"{name}.parquet" for name in (*SPLITS, UNLABELLED)}
    for name, table in tables.items():
        origin, qids = splits[name]
        _write_queries(source, origin, qids, judged[origin], table)
        kept = judged[origin].filter(pl.col("qid").is_in(qids.implode()))
        write_table(folder / "qrels" / f"{name}.parquet", QRELS, [kept.select(QRELS.names).to_arrow()])
        if name == "train":
            counted = kept.filter(pl.col("count").is_not_null() & (pl.col("grade") > 0))
            write_table(folder / "counts.parquet", COUNTS, [counted.select(COUNTS.names).to_arrow()])
    if own:
        _append(tables[UNLABELLED], own_queries(own, tables.values()))
    _warn_of_shared(source, splits)
    statistics = describe(folder)
    if data.passages:
        statistics["passages"]["documents"] = _count_documents(folder / "passages.parquet")
    if source.dropped:
        statistics["left_out"] = dict(source.dropped)
    write_json(folder / "statistics.json", statistics)
    for name, values in statistics.items():
        log.info("%s: %s", name, ", ".join(f"{value:,} {key.replace('_', ' ')}" for key, value in values.items()))


def choose_queries(
    data: Data, queries: dict[str, pl.Series], seed: int, unlabelled_fraction: float = 0.0
) -> dict[str, Split]:
    """Choose the queries of each split.

    Where the source has no dev split, one is cut from train. Where `data.train_queries` is smaller than train, train
    becomes a random sample. The queries whose labels are hidden are drawn from those that the sample leaves out: no
    label is taken from train.

    Args:
        queries: ids of the queries of each split of the source that can be trained on or judged.
        unlabelled_fraction: how many labels are hidden, as a share of the training queries before the sample.

    Raises:
        UserError: nothing would be left for train.
    """
    splits = {name: Split(name, qids) for name, qids in queries.items()}
    train = splits["train"].qids
    if "dev" not in splits:
        dev, train = _cut(train, max(1, round(data.dev_fraction * len(train))), [seed, CUT])
        if not len(train):
            raise UserError("qrels of split train: 1 query is too few to cut a dev split from; add queries")
        log.info("no dev split in the source: %d training queries, drawn with seed %d, become dev", len(dev), seed)
        splits["dev"] = Split("train", dev)
    hidden, others = round(unlabelled_fraction * len(train)), train[:0]
    if data.train_queries is not None and data.train_queries < len(train):
        log.info("train: a sample of %d of %d queries, seed %d", data.train_queries, len(train), seed)
        train, others = _cut(train, data.train_queries, [seed, SAMPLE])
    elif data.train_queries is not None:
        log.info("train: data.train_queries is %d, there are %d queries: all taken", data.train_queries, len(train))
    unlabelled, _ = _cut(others, hidden, [seed, HIDE])
    if len(unlabelled):
        log.info("unlabelled: the labels of %d other training queries are hidden, seed %d", len(unlabelled), seed)
    return splits | {"train": Split("train", train), UNLABELLED: Split("train", unlabelled)}


def read_judgements(source: DataSource, split: str) -> pl.DataFrame:
    """All judgements of a split as its source has them: columns qid, pid, grade, count (null: not counted)."""
    schema = {"qid": pl.String, "pid": pl.String, "grade": pl.Int32, "count": pl.Int64}
    rows = tqdm(source.judgements(split), desc=f"judgements of {split}", unit=" judgements", disable=None)
    batches = batched(row[:4] for _, row in rows)
    return pl.concat([pl.DataFrame(schema=schema), *(pl.DataFrame(rows, schema, orient="row") for rows in batches)])


def describe(folder: Path) -> dict[str, dict[str, float]]:
    """Counts and means of the prepared tables; lengths in characters."""
    passages = folder / "passages.parquet"
    statistics = {"passages": {"passages": _count(passages), "mean_characters": _mean_characters(passages)}}
    for name in (*SPLITS, UNLABELLED):
        queries, qrels = folder / "queries" / f"{name}.parquet", folder / "qrels" / f"{name}.parquet"
        if _count(queries) == 0:  # there are no unlabelled queries
            continue
        answers = int(pl.scan_parquet(queries).select(pl.col("answers").list.len().sum()).collect().item())
        kind, judges = ("answers", answers) if answers else ("judgements", _count(qrels))
        statistics[name] = {
            "queries": _count(queries),
            kind: judges,
            f"{kind}_per_query": round(judges / _count(queries), 3),
            "mean_characters": _mean_characters(queries),
        }
    return statistics


def _write_passages(source: DataSource, path: Path) -> Ids:
    pids = Ids()
    rows = tqdm(source.passages(), desc="passages", unit=" passages", disable=None)

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in batched(rows):
            pids.add([row.pid for _, row in batch])
            yield pa.record_batch([list(column) for column in zip(*(row for _, row in batch), strict=True)], PASSAGES)

    started = time.monotonic()
    write_table(path, PASSAGES, batches())
    count = count_rows(path)
    if not count:
        raise UserError(f"{next(iter(source.files()), 'data.name')}: no passages; add some")
    seconds = time.monotonic() - started
    pids.check_unique(((place, row.pid) for place, row in source.passages()), "passage id")
    log.info("passages: %s a second read and written", f"{count / seconds:,.0f}")
    return pids


def _checked(source: DataSource, split: str, table: pl.DataFrame, pids: Ids) -> pl.DataFrame:
    """The judgements of a split, each once, after a check that every pid exists and no pair has two grades.

    The column `index` is a judgement's place among those of the source.
    """
    unknown = np.flatnonzero(~pids.contain(table["pid"]))
    if len(unknown):
        place, row = _judgement(source, split, int(unknown[0]))
        raise UserError(f"{place}: passage {row.pid!r} is not in the corpus; add it or remove the judgement")
    once = table.with_row_index().unique(table.columns, keep="first", maintain_order=True)  # official files repeat some
    repeated = once.filter(~pl.struct("qid", "pid").is_first_distinct())["index"]
    if len(repeated):
        place, row = _judgement(source, split, repeated[0])
        raise UserError(
            f"{place}: query {row.qid!r} and passage {row.pid!r} are judged twice, differently; keep one judgement"
        )
    if len(once) < len(table):
        log.info("%s: %d judgements are given more than once, and taken once", split, len(table) - len(once))
    return once


def _write_queries(source: DataSource, origin: str, chosen: pl.Series, judged: pl.DataFrame, path: Path) -> None:
    """Write the `chosen` queries in the source's order; each judged query must exist, and only once."""
    if chosen.is_empty():  # no label is hidden: the file need not be read again
        write_table(path, QUERIES, ())
        return
    qids = Ids()

    def batches() -> Iterator[pa.RecordBatch]:
        rows = tqdm(source.queries(origin), desc=f"queries of {origin}", unit=" queries", disable=None)
        for batch in batched(rows):
            names = [row.qid for _, row in batch]
            qids.add(names)
            kept = pl.Series(names, dtype=pl.String).is_in(chosen.implode()).to_list()
            taken = [row for (_, row), keep in zip(batch, kept, strict=True) if keep]
            columns = [[row.qid for row in taken], [row.text for row in taken], [list(row.answers) for row in taken]]
            yield pa.record_batch(columns, QUERIES)

    write_table(path, QUERIES, batches())
    qids.check_unique(((place, row.qid) for place, row in source.queries(origin)), "query id")
    unknown = np.flatnonzero(~qids.contain(judged["qid"]))
    if len(unknown):
        place, row = _judgement(source, origin, judged["index"][int(unknown[0])])
        raise UserError(f"{place}: query {row.qid!r} is not among the queries; add it or remove the judgement")


def _append(path: Path, more: Iterable[pa.RecordBatch]) -> None:
    """Write `more` behind the rows of a queries table; it may read the table while it yields."""
    longer = path.with_suffix(".partial")
    write_table(longer, QUERIES, chain(open_table(path, QUERIES).iter_batches(batch_size=ROW_GROUP), more))
    longer.replace(path)


def _warn_of_shared(source: DataSource, splits: dict[str, Split]) -> None:
    """Warn when a query is in two splits, if an id means the same query in every split of the source."""
    if not source.shared_qids:
        return
    for one, other in (("train", "dev"), ("train", "test"), ("dev", "test")):
        shared = splits[one].qids.is_in(splits[other].qids.implode()).sum()
        if shared:
            log.warning("warning: %d queries are in both %s and %s: measures will flatter", shared, one, other)


def _queries(source: DataSource, split: str, judged: pl.DataFrame) -> pl.Series:
    """Ids of a split's usable queries: all of them if answers judge the split, else those with a positive judgement."""
    if split in source.answered:
        qids = pl.Series([row.qid for _, row in source.queries(split)], dtype=pl.String)
        if qids.is_empty():
            raise UserError(f"queries of split {split}: there are none; add some with answers")
        return qids
    answered = judged.filter(pl.col("grade") > 0)["qid"].unique(maintain_order=True)
    if not len(answered):
        raise UserError(f"qrels of split {split}: no query has a positive grade; add judgements with grade 1")
    left_out = judged["qid"].n_unique() - len(answered)
    if left_out:
        log.info("%s: %d queries without a positive grade are left out, with their judgements", split, left_out)
    return answered


def _cut(qids: pl.Series, count: int, seed: list[int]) -> tuple[pl.Series, pl.Series]:
    """`count` of the ids, drawn at random, and the others; both in their former order."""
    drawn = np.zeros(len(qids), dtype=np.bool_)
    drawn[np.random.default_rng(seed).permutation(len(qids))[:count]] = True
    mask = pl.Series(drawn)
    return qids.filter(mask), qids.filter(~mask)


def _judgement(source: DataSource, split: str, row: int) -> tuple[Place, Judgement]:
    return next(islice(source.judgements(split), row, None))


def _count(path: Path) -> int:
    return int(pl.scan_parquet(path).select(pl.len()).collect().item())


def _count_documents(passages: Path) -> int:
    """How many documents were cut: each has a first passage."""
    first = pl.scan_parquet(passages).select(pl.col("pid").str.ends_with("#0").sum())
    return int(first.collect(engine="streaming").item())


def _mean_characters(path: Path) -> float:
    # Whole numbers are added up, so that the sum does not depend on the order of the threads.
    characters = pl.scan_parquet(path).select(pl.col("text").str.len_chars().cast(pl.Int64).sum())
    return round(int(characters.collect(engine="streaming").item()) / _count(path), 1)


# --- queries without labels -------------------------------------------------------------------------------------------


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
