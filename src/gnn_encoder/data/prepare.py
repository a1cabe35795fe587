"""Turns a source into the tables of passages, queries and qrels: checked, with the splits cut and sampled."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from gnn_encoder.base.distributed import tqdm
from gnn_encoder.base.errors import UserError, check_file, shorten
from gnn_encoder.base.files import write_json
from gnn_encoder.base.judgements import write_identical
from gnn_encoder.base.tables import (
    COUNTS,
    PASSAGES,
    PICKED,
    QRELS,
    QUERIES,
    SPLITS,
    UNLABELLED,
    batched,
    read_column,
    write_table,
)
from gnn_encoder.base.words import is_empty
from gnn_encoder.data.formats import open_beir, open_dpr, open_insuranceqa, open_ir_datasets, open_msmarco, split_names
from gnn_encoder.data.queries import open_log, own_queries, query_keys
from gnn_encoder.data.reading import DataSource, Passage, Place, Query, place_of, refuse_repeated
from gnn_encoder.pipeline.params import Data

log = logging.getLogger(__name__)

# Each draw has its own stream of random numbers, so that another sample size does not change which queries are dev.
CUT, SAMPLE, HIDE, PASS = 1, 2, 3, 4
HIDDEN = 0.9  # so many of the queries that data.train_queries leaves out become unlabelled, as a share of all
EMPTY = "judgements_of_empty_passages"  # which are left out
FAULTS = {
    EMPTY: "",
    "judgements_of_unknown_passages": "passage {pid!r} is not in the corpus; add it or remove the judgement",
    "judgements_of_unknown_queries": "query {qid!r} is not among the queries; add it or remove the judgement",
    "judgements_that_differ_from_an_earlier_one": (
        "query {qid!r} and passage {pid!r} are judged twice, differently; keep one judgement"
    ),
}
JUDGED = pl.Schema({"qid": pl.String(), "pid": pl.String(), "grade": pl.Int32(), "count": pl.Int64()})


def open_source(data: Data) -> DataSource:
    """The source that `data` names."""

    def needed(key: str, what: str) -> str:
        value: str | None = getattr(data, key)
        if value is None:
            option = " or give --path" if key == "path" else ""
            raise UserError(f"data.{key} is null: source {data.source} needs {what}; set data.{key}{option}")
        return value

    def folder(holds: str) -> Path:
        return Path(needed("path", f"the folder that holds {holds}"))

    match data.source:
        case "insuranceqa":
            return open_insuranceqa()
        case "beir":
            return open_beir(folder("corpus.jsonl"))
        case "log":
            return open_log(folder("corpus.jsonl"), data)
        case "msmarco":
            return open_msmarco(folder("collection.tsv"), data.test)
        case "dpr":
            return open_dpr(folder("psgs_w100.tsv"), needed("name", "the set's name, nq or trivia"))
        case "ir_datasets":
            named = data.names.model_dump(exclude_none=True) if data.names else None
            return open_ir_datasets(named or split_names(needed("name", "the set's name, such as beir/scifact")))


def prepare(data: Data, source: DataSource, folder: Path, *, seed: int) -> None:
    """Write passages.parquet, queries/, qrels/, identical/, counts.parquet and statistics.json to `folder`.

    Of the training queries that `data.train_queries` leaves out, HIDDEN become unlabelled, the user's own after them;
    qrels/unlabelled.parquet keeps the hidden labels, by which PAIR's pseudo-labels are judged. With `data.passages` the
    table is a sample of the passages, which holds all that a split's queries are judged with; hidden labels of others
    are left out. Memory: the ids of the passages, the queries and the judgements.
    """
    empty, left_out = list[str](), Counter[str]()
    if data.unlabelled:
        check_file(Path(data.unlabelled))
    pids = _write_passages(source, folder / "passages.parquet", empty, left_out)
    read = {reader: _read_queries(reader) for reader in dict.fromkeys(source.queries.values())}
    texts = {split: read[reader] for split, reader in source.queries.items()}
    judged = {split: _checked(source, split, pids, texts[split]["qid"], empty, left_out) for split in source.judgements}
    usable = {split: _usable(split, table["qid"], judged.get(split)) for split, table in texts.items()}
    drawn = draw_queries(data, usable, seed)
    queries = {name: _among(texts[origin], qids) for name, (origin, qids) in drawn.items()}
    keys = {split: query_keys(queries[split]["text"]) for split in SPLITS}
    queries[UNLABELLED] = _not_in_splits(queries[UNLABELLED], keys)
    qrels = {name: _among(judged.get(drawn[name][0], JUDGED.to_frame()), of["qid"]) for name, of in queries.items()}
    if data.passages is not None and data.passages < len(pids):
        judgements = pl.concat([qrels[name]["pid"] for name in SPLITS])
        pids = _sample_passages(folder / "passages.parquet", pids, judgements, data.passages, seed)
        qrels[UNLABELLED] = _among(qrels[UNLABELLED], pids, "pid")
    if data.unlabelled:
        found = own_queries(Path(data.unlabelled), [table["text"] for table in queries.values()])
        queries[UNLABELLED] = pl.concat([queries[UNLABELLED], found])
    for name in queries:
        write_table(folder / "queries" / f"{name}.parquet", QUERIES, [queries[name].to_arrow()])
        write_table(folder / "qrels" / f"{name}.parquet", QRELS, [qrels[name].select(QRELS.names).to_arrow()])
    counted = qrels["train"].filter(pl.col("count").is_not_null() & (pl.col("grade") > 0))
    write_table(folder / "counts.parquet", COUNTS, [counted.select(COUNTS.names).to_arrow()])
    _warn_of_shared({split: queries[split].select("qid", key=keys[split]) for split in SPLITS}, qrels)
    statistics = {"passages": {"passages": len(pids)}} | _counts(queries, qrels)
    for name, same in write_identical(folder, folder / "identical").items():
        if any(same.values()):
            statistics[name] |= same
    if dropped := source.dropped() | left_out:
        statistics["left_out_or_replaced"] = dict(dropped)
    write_json(folder / "statistics.json", statistics)
    for name, values in statistics.items():
        log.info("%s: %s", name, ", ".join(f"{value:,} {key.replace('_', ' ')}" for key, value in values.items()))


def _read_queries(reader: Callable[[], Iterator[tuple[Place, Query]]]) -> pl.DataFrame:
    table = read_rows(reader(), pl.Schema(QUERIES), "queries")
    refuse_repeated(reader, table["qid"], "query id")
    return table


def _counts(queries: dict[str, pl.DataFrame], qrels: dict[str, pl.DataFrame]) -> dict[str, dict[str, int]]:
    """How many queries each table has, if any, and how many answers or judgements."""
    found = {}
    for name, table in queries.items():
        if len(table):
            answers = int(table["answers"].list.len().sum())
            counts = {"answers": answers} if answers else {"judgements": len(qrels[name])}
            found[name] = {"queries": len(table)} | counts
    return found


def _not_in_splits(hidden: pl.DataFrame, keys: dict[str, pl.Series]) -> pl.DataFrame:
    """The hidden queries without those that a split has, whatever their case and punctuation: see `own_queries`."""
    found = hidden.filter(~query_keys(hidden["text"]).is_in(pl.concat(keys.values()).implode()))
    if len(found) < len(hidden):
        log.info("unlabelled: %d of them are in train, dev or test too, and are left out", len(hidden) - len(found))
    return found


def _warn_of_shared(queries: dict[str, pl.DataFrame], qrels: dict[str, pl.DataFrame]) -> None:
    """Tell of equal texts, within train and of two splits; `queries`: columns qid, key."""
    if len(again := queries["train"].filter(~pl.col("key").is_first_distinct())["qid"]):
        told = "warning: %d training queries repeat another, which shows its label while they are masked, such as %s"
        log.warning(told + "; give equal ones one id", len(again), shorten(again[0]))
    answers = {split: of.join(qrels[split].filter(pl.col("grade") > 0), on="qid") for split, of in queries.items()}
    for one, other in (("train", "dev"), ("train", "test"), ("dev", "test")):
        if len(shared := queries[one].join(queries[other], on="key", how="semi", maintain_order="left")["qid"]):
            same = answers[one].join(answers[other], on=["key", "pid"], how="semi")["qid"].n_unique()
            told = "warning: %d queries of %s are in %s too, such as %s; %d with the same relevant passage flatter"
            log.warning(told, len(shared), one, other, shorten(shared[0]), same)


def _with_texts(source: DataSource, empty: list[str], left_out: Counter[str]) -> Iterator[tuple[Place, Passage]]:
    """The passages with a text, which a title alone becomes; ids of the others go to `empty`, counts to `left_out`."""
    for place, passage in source.passages():
        if not is_empty(passage.text):
            yield place, passage
        elif is_empty(passage.title):
            empty.append(passage.pid)
            left_out["empty_passages"] += 1
        else:
            left_out["texts_replaced_by_titles"] += 1
            yield place, Passage(passage.pid, "", passage.title)


def read_rows(rows: Iterator[tuple[Place, Any]], schema: pl.Schema, what: str) -> pl.DataFrame:
    """Rows of a source as a table, such as JUDGED, whose count is null where nobody counted."""
    batches = batched(row for _, row in tqdm(rows, desc=what, unit=" rows"))
    return pl.concat([schema.to_frame(), *(pl.DataFrame(batch, schema, orient="row") for batch in batches)])


def draw_queries(data: Data, queries: dict[str, pl.Series], seed: int) -> dict[str, tuple[str, pl.Series]]:
    """Choose the queries of each split from those of the source's splits that can be trained on or judged.

    Returns the split of the source that they come from, and their ids.

    Where the source has no dev split, one is cut from train. Where `data.train_queries` is smaller than train, train
    becomes a random sample. The queries whose labels are hidden are drawn from those that the sample leaves out: no
    label is taken from train.
    """
    splits, train = {name: (name, qids) for name, qids in queries.items()}, queries["train"]
    if "dev" not in splits:
        dev, train = _cut(train, max(1, round(data.dev_fraction * len(train))), [seed, CUT])
        if not len(train):
            cure = "add queries, or lower data.dev_fraction"
            raise UserError(f"qrels of split train: all queries, {len(dev)}, would become dev; {cure}")
        log.info("no dev split in the source: %d training queries, drawn with seed %d, become dev", len(dev), seed)
        splits["dev"] = ("train", dev)
    hidden, taken = round(HIDDEN * len(train)), min(data.train_queries or len(train), len(train))
    if data.train_queries is not None:
        log.info("train: a sample of %d of %d queries, seed %d", taken, len(train), seed)
    train, others = _cut(train, taken, [seed, SAMPLE])
    unlabelled, _ = _cut(others, hidden, [seed, HIDE])
    if len(unlabelled):
        log.info("unlabelled: the labels of %d other training queries are hidden, seed %d", len(unlabelled), seed)
    return {"train": ("train", train), "dev": splits["dev"], "test": splits["test"], UNLABELLED: ("train", unlabelled)}


def _write_passages(source: DataSource, path: Path, empty: list[str], left_out: Counter[str]) -> pl.Series:
    """Write the passages table. Returns the ids, which are unique."""
    texts = partial(_with_texts, source, empty, left_out)
    rows = batched(row for _, row in tqdm(texts(), desc="passages", unit=" passages"))
    batches = (pl.DataFrame(batch, PASSAGES.names, orient="row").to_arrow() for batch in rows)
    write_table(path, PASSAGES, batches, PICKED)
    pids = read_column(path, "pid")
    refuse_repeated(texts, pids, "passage id")
    for pid in pids.filter(pids.is_in(pl.Series(empty, dtype=pl.String).implode()))[:1]:
        both = f"{pid!r} is the id of a passage with a text and of one without; give each row its own"
        raise UserError(f"{next(iter(source.files), 'data.name')}, passage id: {both}")
    if len(pids) < 2:
        found = "one passage alone, so that there is nothing to rank" if len(pids) else "no passages with a text"
        raise UserError(f"{next(iter(source.files), 'data.name')}: {found}; add some")
    return pids


def _sample_passages(path: Path, pids: pl.Series, judged: pl.Series, size: int, seed: int) -> pl.Series:
    """Leave all judged passages and random others, `size` together, in the passages table. Returns their ids."""
    kept = pids.is_in(judged.implode()).to_numpy().copy()
    if kept.sum() > size:
        rule = f"the passages that the queries are judged with are {kept.sum()} alone"
        raise UserError(f"data.passages is {size}: {rule}; raise it to these or more, or lower data.train_queries")
    others = np.flatnonzero(~kept)
    kept[np.random.default_rng([seed, PASS]).permutation(others)[: size - kept.sum()]] = True
    log.info("passages: a sample of %d of %d, which holds all judged ones, seed %d", size, len(pids), seed)
    whole = path.rename(path.with_name("whole.parquet"))

    def batches() -> Iterator[pa.RecordBatch]:
        first = 0
        for batch in pq.ParquetFile(whole).iter_batches():
            yield batch.filter(pa.array(kept[first : first + len(batch)]))
            first += len(batch)

    write_table(path, PASSAGES, batches(), PICKED)
    whole.unlink()
    return pids.filter(pl.Series(kept))


def _checked(
    source: DataSource, split: str, pids: pl.Series, qids: pl.Series, empty: list[str], left_out: Counter[str]
) -> pl.DataFrame:
    """The judgements of a split, each once, without the wrong ones: these are counted in `left_out`, or refused.

    A judgement is wrong if an id is unknown, or if an earlier one of its pair has another grade.
    """
    table = read_rows(source.judgements[split](), JUDGED, f"judgements of {split}").with_row_index()
    once = table.unique(JUDGED.names(), keep="first", maintain_order=True)  # official files repeat some
    if len(once) < len(table):
        log.info("%s: %d judgements are given more than once, and taken once", split, len(table) - len(once))
    wrong = (
        pl.col("pid").is_in(empty),
        ~pl.col("pid").is_in(pids.implode()),
        ~pl.col("qid").is_in(qids.implode()),
        ~pl.struct("qid", "pid").is_first_distinct(),
    )
    fault = pl.coalesce(pl.when(one).then(pl.lit(name)) for one, name in zip(wrong, FAULTS, strict=True))
    once = once.with_columns(fault=fault)
    found = once.drop_nulls("fault")
    if not source.lenient:
        for row in found.filter(pl.col("fault") != EMPTY).head(1).iter_rows(named=True):
            raise UserError(f"{place_of(source.judgements[split], row['index'])}: {FAULTS[row['fault']].format(**row)}")
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
        cure = "add judgements with grade 1"
        raise UserError(f"qrels of split {split}: no query has a positive grade of a passage of the corpus; {cure}")
    if left_out := judged["qid"].n_unique() - len(answered):
        log.info("%s: %d queries without a positive grade are left out, with their judgements", split, left_out)
    return answered


def _among(table: pl.DataFrame, ids: pl.Series, column: str = "qid") -> pl.DataFrame:
    return table.filter(pl.col(column).is_in(ids.implode()))


def _cut(qids: pl.Series, count: int, seed: list[int]) -> tuple[pl.Series, pl.Series]:
    """`count` of the ids, drawn at random, and the others; both in their former order."""
    drawn = np.zeros(len(qids), dtype=np.bool_)
    drawn[np.random.default_rng(seed).permutation(len(qids))[:count]] = True
    mask = pl.Series(drawn)
    return qids.filter(mask), qids.filter(~mask)
