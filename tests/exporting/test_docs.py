"""The Python that docs/python.md and docs/exporting.md show runs, and finds what a search finds."""

import shlex
import shutil
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gnn_encoder import Searcher, cli

from ..project import code_of
from .conftest import top

ASKED = "Does Medicare cover hearing aids?"
INDEX = "data/indexes/gnn_encoder"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def exported(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of the project, with what the commands of docs/exporting.md write, as the current folder."""
    root = tmp_path_factory.mktemp("docs") / "project"
    shutil.copytree(built, root)
    lines = [line for block in code_of("exporting.md", "sh") for line in block.splitlines()]
    with chdir(root):
        for line in lines:
            result = CliRunner().invoke(cli.app, shlex.split(line, comments=True)[1:])
            assert result.exit_code == 0, result.output
        yield root


def test_python(exported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    for code in code_of("python.md", "python"):
        exec(code, names)  # noqa: S102
    expected = top(Searcher.open(INDEX), ASKED)
    out = capsys.readouterr().out
    assert [line.split()[2] for line in out.splitlines()[:10]] == expected
    assert "\nthe query is empty: give it some words\n" in out and str(expected)[:-1] in out


def test_exporting(exported: Path) -> None:
    names: dict[str, Any] = {}
    for code in code_of("exporting.md", "python"):
        exec(code, names)  # noqa: S102
    assert names["found"][0] == top(Searcher.open(INDEX), ASKED)
