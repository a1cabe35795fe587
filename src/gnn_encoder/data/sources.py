"""The choice of the reader for `data.source`."""

from collections.abc import Callable
from pathlib import Path

from gnn_encoder.core.errors import UserError
from gnn_encoder.data.beir import Beir
from gnn_encoder.data.cutting import Cut
from gnn_encoder.data.dpr import DPR
from gnn_encoder.data.insuranceqa import InsuranceQA
from gnn_encoder.data.ir_datasets import IRDatasets, split_names
from gnn_encoder.data.msmarco import MSMARCO
from gnn_encoder.data.params import Data
from gnn_encoder.data.query_log import SearchLog
from gnn_encoder.data.rows import DataSource
from gnn_encoder.data.squad import Squad


def open_source(data: Data) -> DataSource:
    """The reader of `data.source`; with `data.passages` it cuts the texts into passages.

    Raises:
        UserError: its package, its folder or one of its files is missing, or the parameter that names it is null.
    """
    readers: dict[str, Callable[[Data], DataSource]] = {
        "insuranceqa": lambda data: InsuranceQA(),
        "beir": lambda data: Beir(_folder(data, "corpus.jsonl")),
        "log": lambda data: SearchLog(
            _folder(data, "corpus.jsonl"),
            min_count=data.min_count,
            split=data.split,
            dev=data.dev_fraction,
            test=data.test_fraction,
        ),
        "squad": lambda data: Squad(_folder(data, "train.json"), dev=data.dev_fraction, test=data.test_fraction),
        "msmarco": lambda data: MSMARCO(_folder(data, "collection.tsv"), data.test),
        "dpr": lambda data: DPR(_folder(data, "psgs_w100.tsv"), _name(data, "nq or trivia")),
        "ir_datasets": lambda data: IRDatasets(_names(data)),
    }
    source = readers[data.source](data)
    return Cut(source, data.passages) if data.passages else source


def _folder(data: Data, holds: str) -> Path:
    if data.path is None:
        raise UserError(f"data.path is null: source {data.source} needs the folder that holds {holds}; set data.path")
    return Path(data.path)


def _name(data: Data, example: str) -> str:
    if data.name is None:
        raise UserError(f"data.name is null: source {data.source} needs the set's name, {example}; set data.name")
    return data.name


def _names(data: Data) -> dict[str, str]:
    if data.names is not None:
        return data.names.model_dump(exclude_none=True)
    return split_names(_name(data, "such as beir/scifact"))
