"""What the readers' tests share: folders of the sources' formats, prepared tables, and the line for bad input."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from gnn_encoder.base.errors import UserError
from gnn_encoder.data.prepare import open_source, prepare
from gnn_encoder.pipeline.params import Data

Write = Callable[[Mapping[str, str | bytes]], Path]
Prepared = Callable[..., Path]
Refused = Callable[..., None]


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def data_of(**keys: Any) -> Data:
    return Data.model_validate({"path": None, "train_queries": None, "dev_fraction": 0.25} | keys)


@pytest.fixture
def folder(tmp_path: Path) -> Write:
    """Writes files into one folder."""
    return lambda files: write_files(tmp_path / "source", files)


@pytest.fixture
def prepared(tmp_path: Path) -> Prepared:
    """The prepared tables of a source."""

    def run(*, seed: int = 1, out: str = "out", **keys: Any) -> Path:
        data = data_of(**keys)
        prepare(data, open_source(data), tmp_path / out, seed=seed)
        return tmp_path / out

    return run


@pytest.fixture
def refused(prepared: Prepared) -> Refused:
    """`refused(part of the message, source=..., path=...)`: one line that says it."""

    def check(message: str, **keys: Any) -> None:
        with pytest.raises(UserError) as error:
            prepared(**keys)
        assert message in str(error.value)
        assert len(str(error.value).splitlines()) == 1

    return check


def rows(path: Path) -> list[tuple[Any, ...]]:
    """Rows of a Parquet file."""
    return pl.read_parquet(path).rows()
