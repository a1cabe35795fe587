"""Tables of labels, the pipeline's own or anybody's: a column qid, and a column for each property of the queries."""

from dataclasses import asdict, dataclass
from pathlib import Path

import polars as pl
from pydantic import TypeAdapter

from gnn_encoder.core.errors import UserError
from gnn_encoder.core.storage.atomic import write_json

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


def write_about(folder: Path, found: dict[str, About]) -> None:
    """Write, as JSON, split -> what its labels mean."""
    write_json(folder / ABOUT, {split: asdict(about) for split, about in found.items()})


def read_about(folder: Path) -> dict[str, About]:
    """Read what `write_about` wrote into a folder."""
    return TypeAdapter(dict[str, About]).validate_json((folder / ABOUT).read_bytes())


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
