"""Turns a source into the tables of passages, queries and qrels: checked, with the splits cut and sampled."""

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from gnn_encoder.base.distributed import tqdm
from gnn_encoder.base.errors import UserError
from gnn_encoder.base.files import write_json
from gnn_encoder.base.tables import COUNTS, PASSAGES, PICKED, QRELS, QUERIES, SPLITS, UNLABELLED, batched, write_table
from gnn_encoder.data.identical import write_identical
from gnn_encoder.data.lines import read_lines, read_parquet
from gnn_encoder.data.query_log import normal_form
from gnn_encoder.data.rows import Judgements, Queries, Source, check_text, checked, refuse, unique
from gnn_encoder.pipeline.params import Data

log = logging.getLogger(__name__)

# Each draw has its own stream of random numbers, so that another sample size does not change which queries are dev.
CUT, SAMPLE, HIDE = 1, 2, 3
HIDDEN = 0.9  # so many of the queries that data.train_queries leaves out become unlabelled, as a share of all
TEXTS = pl.Schema({"qid": pl.String(), "text": pl.String(), "answers": pl.List(pl.String())})
FAULTS = {
    "judgements_of_unknown_passages": "passage {0.pid!r} is not in the corpus; add it or remove the judgement",
    "judgements_of_unknown_queries": "query {0.qid!r} is not among the queries; add it or remove the judgement",
    "judgements_that_differ_from_an_earlier_one": (
        "query {0.qid!r} and passage {0.pid!r} are judged twice, differently; keep one judgement"
    ),
}
JUDGED = pl.Schema({"qid": pl.String(), "pid": pl.String(), "grade": pl.Int32(), "count": pl.Int64()})


class Split(NamedTuple):
    """The queries that were chosen for a split."""

    origin: str  # the source's split that they come from
    qids: pl.Series


def prepare(data: Data, source: Source, folder: Path, *, seed: int) -> None:
    """Write passages.parquet, queries/, qrels/, identical/, counts.parquet and statistics.json to `folder`.

    Of the training queries that `data.train_queries` leaves out, HIDDEN become unlabelled. PAIR gives them
    pseudo-labels; qrels/unlabelled.parquet keeps the hidden labels, by which the pseudo-labels are judged. The user's
    own unlabelled queries stand after them.

    Memory: the ids of the passages, the queries and the judgements.
    """
    own = own_file(data.unlabelled)
    pids = _write_passages(source, folder / "passages.parquet")
    read = {reader: read_queries(reader) for reader in dict.fromkeys(source.queries.values())}
    texts = {split: read[reader] for split, reader in source.queries.items()}
    left_out = Counter[str]()
    judged = {
        split: _checked(split, reader, pids, texts[split]["qid"], left_out if source.foreign else None)
        for split, reader in source.judgements.items()
    }
    usable = {split: _usable(split, table["qid"], judged.get(split)) for split, table in texts.items()}
    drawn = choose_queries(data, usable, seed)
    chosen = {name: drawn[name] for name in (*SPLITS, UNLABELLED)}
    queries = {name: _among(texts[origin], qids) for name, (origin, qids) in chosen.items()}
    qrels = {name: _among(judged.get(origin, JUDGED.to_frame()), qids) for name, (origin, qids) in chosen.items()}
    if own:
        found = own_queries(own, [table["text"] for table in queries.values()])
        queries[UNLABELLED] = pl.concat([queries[UNLABELLED], found])
    for name in queries:
        write_table(folder / "queries" / f"{name}.parquet", QUERIES, [queries[name].to_arrow()])
        write_table(folder / "qrels" / f"{name}.parquet", QRELS, [qrels[name].select(QRELS.names).to_arrow()])
    counted = qrels["train"].filter(pl.col("count").is_not_null() & (pl.col("grade") > 0))
    write_table(folder / "counts.parquet", COUNTS, [counted.select(COUNTS.names).to_arrow()])
    _warn_of_shared(queries)
    statistics = {"passages": {"passages": len(pids)}}
    statistics |= {name: _counts(queries[name], qrels[name]) for name in queries if len(queries[name])}
    for name, same in write_identical(folder, folder / "identical").items():
        if any(same.values()):
            statistics[name] |= same
    if dropped := source.dropped() | left_out:
        statistics["left_out_or_replaced"] = dict(dropped)
    write_json(folder / "statistics.json", statistics)
    for name, values in statistics.items():
        log.info("%s: %s", name, ", ".join(f"{value:,} {key.replace('_', ' ')}" for key, value in values.items()))


def check_count(where: Path | str, passages: int) -> None:
    """Refuse a corpus in which there is nothing to rank."""
    if passages < 2:
        found = "one passage alone, so that there is nothing to rank" if passages else "no passages with a text"
        raise UserError(f"{where}: {found}; add some")


def read_queries(reader: Queries) -> pl.DataFrame:
    """All queries that a source has for a split: columns qid, text, answers."""
    rows = tqdm(unique(reader, "query id"), desc="queries", unit=" queries")
    parts = (pl.DataFrame([row for _, row in batch], TEXTS, orient="row") for batch in batched(rows))
    return pl.concat([TEXTS.to_frame(), *parts])


def read_judgements(split: str, reader: Judgements) -> pl.DataFrame:
    """All judgements of a split as its source has them: columns qid, pid, grade, count (null: not counted)."""
    rows = tqdm(reader(), desc=f"judgements of {split}", unit=" judgements")
    parts = (pl.DataFrame([row for _, row in batch], JUDGED, orient="row") for batch in batched(rows))
    return pl.concat([JUDGED.to_frame(), *parts])


def choose_queries(data: Data, queries: dict[str, pl.Series], seed: int) -> dict[str, Split]:
    """Choose the queries of each split.

    Where the source has no dev split, one is cut from train. Where `data.train_queries` is smaller than train, train
    becomes a random sample. The queries whose labels are hidden are drawn from those that the sample leaves out: no
    label is taken from train.

    Args:
        queries: ids of the queries of each split of the source that can be trained on or judged.
    """
    splits = {name: Split(name, qids) for name, qids in queries.items()}
    train = splits["train"].qids
    if "dev" not in splits:
        dev, train = _cut(train, max(1, round(data.dev_fraction * len(train))), [seed, CUT])
        if not len(train):
            raise UserError("qrels of split train: 1 query is too few to cut a dev split from; add queries")
        log.info("no dev split in the source: %d training queries, drawn with seed %d, become dev", len(dev), seed)
        splits["dev"] = Split("train", dev)
    hidden, taken = round(HIDDEN * len(train)), min(data.train_queries or len(train), len(train))
    if data.train_queries is not None:
        log.info("train: a sample of %d of %d queries, seed %d", taken, len(train), seed)
    train, others = _cut(train, taken, [seed, SAMPLE])
    unlabelled, _ = _cut(others, hidden, [seed, HIDE])
    if len(unlabelled):
        log.info("unlabelled: the labels of %d other training queries are hidden, seed %d", len(unlabelled), seed)
    return splits | {"train": Split("train", train), UNLABELLED: Split("train", unlabelled)}


def _write_passages(source: Source, path: Path) -> pl.Series:
    """Write the passages table. Returns the ids, which are unique."""
    rows = tqdm(unique(source.passages, "passage id"), desc="passages", unit=" passages")

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in batched(row for _, row in rows):
            yield pa.record_batch([list(column) for column in zip(*batch, strict=True)], PASSAGES)

    write_table(path, PASSAGES, batches(), PICKED)
    pids = pl.read_parquet(path, columns=["pid"])["pid"]
    check_count(next(iter(source.files), "data.name"), len(pids))
    return pids


def _checked(
    split: str, reader: Judgements, pids: pl.Series, qids: pl.Series, left_out: Counter[str] | None
) -> pl.DataFrame:
    """The judgements of a split, each once, without the wrong ones: `left_out` counts these; where it is None, refuse.

    A judgement is wrong if an id is unknown, or if an earlier one of its pair has another grade.
    """
    table = read_judgements(split, reader).with_row_index()
    once = table.unique(JUDGED.names(), keep="first", maintain_order=True)  # official files repeat some
    if len(once) < len(table):
        log.info("%s: %d judgements are given more than once, and taken once", split, len(table) - len(once))
    wrong = (
        ~pl.col("pid").is_in(pids.implode()),
        ~pl.col("qid").is_in(qids.implode()),
        ~pl.struct("qid", "pid").is_first_distinct(),
    )
    fault = pl.coalesce(pl.when(one).then(pl.lit(name)) for one, name in zip(wrong, FAULTS, strict=True))
    once = once.with_columns(fault=fault)
    found = once.drop_nulls("fault")
    if left_out is None and len(found):
        refuse(reader, {index: FAULTS[name] for index, name in found.select("index", "fault").iter_rows()})
    elif left_out is not None:
        left_out.update(found["fault"])
    return once.filter(pl.col("fault").is_null()).drop("index", "fault")


def _usable(split: str, qids: pl.Series, judged: pl.DataFrame | None) -> pl.Series:
    """Ids of a split's usable queries: all of them if answers judge the split, else those with a positive judgement."""
    if judged is None:
        if qids.is_empty():
            raise UserError(f"queries of split {split}: there are none; add some with answers")
        return qids
    answered = judged.filter(pl.col("grade") > 0)["qid"].unique(maintain_order=True)
    if answered.is_empty():
        raise UserError(f"qrels of split {split}: no query has a positive grade; add judgements with grade 1")
    left_out = judged["qid"].n_unique() - len(answered)
    if left_out:
        log.info("%s: %d queries without a positive grade are left out, with their judgements", split, left_out)
    return answered


def _among(table: pl.DataFrame, qids: pl.Series) -> pl.DataFrame:
    return table.filter(pl.col("qid").is_in(qids.implode()))


def _cut(qids: pl.Series, count: int, seed: list[int]) -> tuple[pl.Series, pl.Series]:
    """`count` of the ids, drawn at random, and the others; both in their former order."""
    drawn = np.zeros(len(qids), dtype=np.bool_)
    drawn[np.random.default_rng(seed).permutation(len(qids))[:count]] = True
    mask = pl.Series(drawn)
    return qids.filter(mask), qids.filter(~mask)


def _warn_of_shared(queries: dict[str, pl.DataFrame]) -> None:
    keys = {split: _keys(queries[split]["text"]) for split in SPLITS}
    for one, other in (("train", "dev"), ("train", "test"), ("dev", "test")):
        shared = keys[one].is_in(keys[other].implode()).sum()
        if shared:
            log.warning("warning: %d queries are in both %s and %s: measures will flatter", shared, one, other)


def _counts(queries: pl.DataFrame, qrels: pl.DataFrame) -> dict[str, int]:
    answers = int(queries["answers"].list.len().sum())
    return {"queries": len(queries)} | ({"answers": answers} if answers else {"judgements": len(qrels)})


# --- queries without labels -------------------------------------------------------------------------------------------


def own_file(name: str | None) -> Path | None:
    """The file that `data.unlabelled` names, or None if it is null."""
    if name is None:
        return None
    if not Path(name).is_file():
        raise UserError(f"data.unlabelled is {name!r}: no such file; correct it, or set it to null")
    return Path(name)


def own_queries(path: Path, others: list[pl.Series]) -> pl.DataFrame:
    """A user's queries as a queries table, each text once.

    Queries that other tables have are left out, whatever their case, white space and punctuation: those of train would
    stay in the graph when Masked Graph Training takes the labelled one out, and those of dev and test would take part
    in the graph that they are judged by.

    Args:
        path: a text file with one query per line, plain or gzip, or a Parquet table with a column `text`, such as that
            of the generated queries.
        others: the texts of the splits, and of queries with hidden labels.
    """
    texts = pl.Series("text", list(read_texts(path)), pl.String)
    keys, taken = _keys(texts), _keys(pl.concat(others).alias("text"))
    kept = texts.filter(keys.is_first_distinct() & ~keys.is_in(taken.implode()))
    told = "%s: %d queries; %d more repeat one of them or of the data's, and are left out"
    log.info(told, path, len(kept), len(texts) - len(kept))
    qids = [f"unlabelled-{number}" for number in range(len(kept))]
    return pl.DataFrame({"qid": qids, "text": kept, "answers": [[]] * len(kept)}, TEXTS)


def read_texts(path: Path) -> Iterator[str]:
    """Stream a user's queries, checking each."""
    if path.suffix == ".parquet":
        rows = checked(read_parquet(path, ["text"]), lambda place, row: check_text(place, "query", row["text"]))
    else:
        rows = read_lines(path, lambda place, line: check_text(place, "query", " ".join(line.split())))
    return (text for _, text in rows)


def _keys(texts: pl.Series) -> pl.Series:
    """What equal queries have in common."""
    text, same = pl.col("text"), normal_form(pl.col("text"))
    whole = pl.when(same == "").then(text.str.strip_chars()).otherwise(same)  # "?" is no "!"
    return texts.to_frame("text").select(whole)["text"]
