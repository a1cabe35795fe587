"""The choice of the reader for `data.source`."""

from collections.abc import Callable
from pathlib import Path

from gnn_encoder.core.errors import UserError
from gnn_encoder.core.params import Data
from gnn_encoder.data.beir import Beir
from gnn_encoder.data.dpr import DPR
from gnn_encoder.data.insuranceqa import InsuranceQA
from gnn_encoder.data.ir_datasets import IRDatasets, split_names
from gnn_encoder.data.msmarco import MSMARCO
from gnn_encoder.data.rows import Source


def open_source(data: Data) -> Source:
    """The reader of `data.source`.

    Raises:
        UserError: its package, its folder or one of its files is missing, or the parameter that names it is null.
    """
    readers: dict[str, Callable[[Data], Source]] = {
        "insuranceqa": lambda data: InsuranceQA(),
        "beir": lambda data: Beir(_folder(data, "corpus.jsonl")),
        "msmarco": lambda data: MSMARCO(_folder(data, "collection.tsv"), data.test),
        "dpr": lambda data: DPR(_folder(data, "psgs_w100.tsv"), _name(data, "nq or trivia")),
        "ir_datasets": lambda data: IRDatasets(_names(data)),
    }
    return readers[data.source](data)


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
