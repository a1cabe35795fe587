"""What the readers' tests share: copies of the samples to spoil, and prepared tables to look at."""

import gzip
import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from gnn_encoder.base.errors import UserError
from gnn_encoder.data.prepare import prepare
from gnn_encoder.data.sources import open_source
from gnn_encoder.pipeline.params import Data

TINY = Path(__file__).parents[1] / "tiny"
Change = Callable[[Path], None]


@pytest.fixture
def sample(tmp_path: Path) -> Callable[[str], Path]:
    """A copy of one of tests/tiny's sources."""
    return lambda name: shutil.copytree(TINY / name, tmp_path / name)


@pytest.fixture
def prepared(tmp_path: Path) -> Callable[..., Path]:
    """The prepared tables of a source."""

    def run(*, seed: int = 1, **keys: object) -> Path:
        data = Data.model_validate({"path": None, "train_queries": None, "dev_fraction": 0.25} | keys)
        prepare(data, open_source(data), tmp_path / "out", seed=seed)
        return tmp_path / "out"

    return run


@pytest.fixture
def refused(prepared: Callable[..., Path]) -> Callable[..., None]:
    """`refused(part of the message, source=..., path=...)`: one line that says it."""

    def check(message: str, **keys: object) -> None:
        with pytest.raises(UserError) as error:
            prepared(**keys)
        assert message in str(error.value)
        assert len(str(error.value).splitlines()) == 1

    return check


@pytest.fixture
def rows() -> Callable[[Path], list[tuple[object, ...]]]:
    """Rows of a Parquet file."""
    return lambda path: pl.read_parquet(path).rows()


@pytest.fixture
def append() -> Callable[[str, str | bytes], Change]:
    """A change that adds to a file."""

    def adding(name: str, text: str | bytes) -> Change:
        def change(folder: Path) -> None:
            with (folder / name).open("ab") as file:
                file.write(text.encode() if isinstance(text, str) else text)

        return change

    return adding


@pytest.fixture
def pack() -> Callable[[Path], None]:
    """Compresses every file of a folder."""

    def compress(folder: Path) -> None:
        for path in [path for path in folder.rglob("*") if path.is_file()]:
            path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()

    return compress
