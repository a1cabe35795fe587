"""The prepared data in BEIR's format, so that other tools take the very passages, queries and splits."""

import json
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import polars as pl
import pyarrow as pa

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.files import check_undamaged
from gnn_encoder.base.tables import PASSAGES, QRELS, QUERIES, SPLITS, count_rows, open_table, read_column
from gnn_encoder.data.reading import QRELS_HEADER
from gnn_encoder.pipeline import project


def export_beir(system: str, folder: Path) -> None:
    """`corpus.jsonl`, `queries.jsonl` and `qrels/{train,dev,test}.tsv`. It is the same for every system.

    BEIR has one file for the queries of all splits, and its evaluation drops a passage that has the id of the query. If
    an id means two queries, or a query and a passage, every query's id therefore gets its split in front: `dev-17`.
    """
    check_undamaged(project.PREPARED)
    for split in SPLITS:
        if not count_rows(project.qrels(split)):
            raise UserError(
                f"{project.qrels(split)}: holds no judgements; BEIR's format has nothing else to judge a split by"
            )
    name = "{0}-{1}" if _are_ids_shared() else "{1}"  # of a query, from its split and its id
    passages = (
        _json(_id=row["pid"], title=row["title"], text=row["text"]) for row in _rows(project.PASSAGES, PASSAGES)
    )
    queries = (
        _json(_id=name.format(split, row["qid"]), text=row["text"])
        for split in SPLITS
        for row in _rows(project.queries(split), QUERIES)
    )
    _write_lines(folder / "corpus.jsonl", passages)
    _write_lines(folder / "queries.jsonl", queries)
    (folder / "qrels").mkdir()
    for split in SPLITS:
        rows = (
            f"{name.format(split, row['qid'])}\t{row['pid']}\t{row['grade']}"
            for row in _rows(project.qrels(split), QRELS)
        )
        _write_lines(folder / "qrels" / f"{split}.tsv", chain(["\t".join(QRELS_HEADER)], rows))


def _are_ids_shared() -> bool:
    """Whether an id stands for two queries, or for a query and a passage."""
    qids = pl.concat([pl.Series("pid", read_column(project.queries(split), "qid")) for split in SPLITS])
    if qids.n_unique() < len(qids):
        return True
    shared = pl.scan_parquet(project.PASSAGES).filter(pl.col("pid").is_in(qids.implode())).select("pid").head(1)
    return not shared.collect(engine="streaming").is_empty()


def _rows(path: Path, schema: pa.Schema) -> Iterator[dict[str, str]]:
    for batch in open_table(path, schema).iter_batches(batch_size=4096):
        yield from batch.to_pylist()


def _json(**fields: str) -> str:
    return json.dumps(fields, ensure_ascii=False)


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)
