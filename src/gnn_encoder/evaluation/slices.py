"""Slices: systems on the queries that share a label, and whether they differ from a baseline there.

Labels are tables, the pipeline's own or anybody's: a column qid, and a column for each property of the queries.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import TypeAdapter

from gnn_encoder.core.errors import UserError
from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.evaluation.significance import Comparison, compare, corrected
from gnn_encoder.evaluation.values import by_split

SIMILARITY, LABELLED, CUT = "similarity", "labelled", "cut"  # the pipeline's own properties
ABOUT = "slices.json"
MOST = 50  # labels of a property; a column with more holds texts, say, or numbers
SEPARATORS = {".csv": ",", ".tsv": "\t"}
KINDS = "text, whole numbers or true and false"


@dataclass(frozen=True, kw_only=True)
class About:
    """What the labels of a split mean.

    Attributes:
        thirds: similarities from which on a query is in the middle third, and in the upper third.
        passage_length: most tokens that the encoder reads of a passage, special ones included.
        left_out: properties without a column, because nobody knows which passages are relevant.
    """

    thirds: tuple[float, float]
    passage_length: int
    left_out: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Slice:
    """The judged queries with one label of a property; without a query there are no means.

    Attributes:
        queries: how many there are.
        means: system -> mean of the measure over them, in 0..1.
        against: system -> its comparison with the baseline; p_holm is corrected for all slices of the system.
    """

    queries: int
    means: dict[str, float]
    against: dict[str, Comparison]


Slices = dict[str, dict[str, Slice]]  # property -> label -> slice


@dataclass(frozen=True, kw_only=True)
class Sliced:
    """The slices of a split, with what their labels mean."""

    measure: str
    baseline: str
    about: About
    slices: Slices


def slice_systems(values: pl.DataFrame, labels: pl.DataFrame, baseline: str | None = None) -> Slices:
    """Mean of each system on each slice and, if there is a baseline, its difference from that one there.

    Args:
        values: columns system, qid, value, of one measure and split; every system has the same queries.
        labels: column qid, and a column of labels for each property; a query with null is in no slice of the property.
    """
    wide = values.pivot("system", index="qid", values="value", maintain_order=True)
    systems = [name for name in wide.columns if name != "qid"]
    parts = {
        (name, label): wide.filter(pl.col("qid").is_in(labels.filter(pl.col(name) == label)["qid"].implode()))
        for name in labels.columns
        if name != "qid"
        for label in labels[name].drop_nulls().unique().sort()
    }
    compared = {system: _compared(parts, system, baseline) for system in systems if baseline and system != baseline}
    found: Slices = {}
    for (name, label), of in parts.items():
        found.setdefault(name, {})[str(label)] = Slice(
            queries=len(of),
            means={system: float(of[system].to_numpy().mean()) for system in systems if len(of)},
            against={system: tests[name, label] for system, tests in compared.items() if (name, label) in tests},
        )
    return found


def _compared(
    parts: dict[tuple[str, Any], pl.DataFrame], system: str, baseline: str
) -> dict[tuple[str, Any], Comparison]:
    columns = {key: (of[system].to_numpy(), of[baseline].to_numpy()) for key, of in parts.items() if len(of)}
    return corrected({key: compare(*values, baseline) for key, values in columns.items()})


def slice_splits(
    values: pl.DataFrame, labels: dict[str, tuple[pl.DataFrame, About]], measure: str, baseline: str
) -> dict[str, Sliced]:
    """Split -> its slices.

    Args:
        values: columns system, split, qid, measure, value.
        labels: split -> its labels, and what they mean.
    """
    found = {}
    for split, rows in by_split(values.filter(measure=measure)).items():
        table, about = labels[split]
        slices = slice_systems(rows, table, baseline)
        found[split] = Sliced(measure=measure, baseline=baseline, about=about, slices=slices)
    return found


def write_labelled(folder: Path, labels: dict[str, tuple[pl.DataFrame, About]]) -> None:
    """Write the labels of each split, and what they mean, into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, (table, _) in labels.items():
        table.write_parquet(folder / f"{split}.parquet")
    write_json(folder / ABOUT, {split: about for split, (_, about) in labels.items()})


def read_labelled(folder: Path) -> dict[str, tuple[pl.DataFrame, About]]:
    """Read what `write_labelled` wrote."""
    about = TypeAdapter(dict[str, About]).validate_json((folder / ABOUT).read_bytes())
    return {split: (read_labels(folder / f"{split}.parquet"), meaning) for split, meaning in about.items()}


def read_labels(path: Path) -> pl.DataFrame:
    """Read a Parquet, CSV or TSV table of labels.

    Returns:
        Column qid (str) and the others in their order, true and false as yes and no; null: the query has no label.

    Raises:
        UserError: the file is missing or cannot be read, it lacks a column, a column holds no labels, or a query is
            missing or there twice.
    """
    table = _read(path)
    properties = [name for name in table.columns if name != "qid"]
    if "qid" not in table.columns or not properties:
        raise UserError(
            f"{path}: its columns are {', '.join(table.columns) or 'none'}; must be qid and at least one column of "
            "labels: add what is missing"
        )
    qids = table["qid"].cast(pl.String)
    if qids.has_nulls():
        raise UserError(f"{path}, column qid: row {qids.is_null().arg_max()} is empty; name the query or drop the row")
    if qids.n_unique() < len(qids):
        raise UserError(f"{path}, column qid: {qids.filter(qids.is_duplicated())[0]!r} is there twice; keep one row")
    return pl.DataFrame([qids, *(_labels(path, table[name]) for name in properties)])


def _read(path: Path) -> pl.DataFrame:
    if path.suffix not in (".parquet", *SEPARATORS):
        raise UserError(f"{path}: must end in .parquet, .csv or .tsv, which says how it is read")
    if not path.is_file():
        raise UserError(
            f"{path}: no such file; give a table of labels, or make those of params.yaml's data with `dvc repro`"
        )
    try:
        if path.suffix == ".parquet":
            return pl.read_parquet(path)
        return pl.read_csv(path, separator=SEPARATORS[path.suffix], infer_schema=False)
    except pl.exceptions.PolarsError as error:
        raise UserError(f"{path}: not readable ({' '.join(str(error).split())}); write it again") from error


def _labels(path: Path, column: pl.Series) -> pl.Series:
    place = f"{path}, column {column.name}"
    if column.dtype == pl.Boolean:
        return column.replace_strict({True: "yes", False: "no"}, return_dtype=pl.String)
    if isinstance(column.dtype, pl.Categorical | pl.Enum):
        column = column.cast(pl.String)
    if not (column.dtype == pl.String or column.dtype.is_integer()):
        raise UserError(f"{place}: holds {column.dtype}; labels must be {KINDS}: put it into ranges, or drop it")
    if (labels := column.drop_nulls().n_unique()) > MOST:
        raise UserError(f"{place}: has {labels} labels; must have at most {MOST}: put it into ranges, or drop it")
    return column
