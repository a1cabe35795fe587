"""The Python that docs/python.md and docs/exporting.md show runs, and finds what a search finds."""

import re
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


def blocks(page: str, language: str) -> list[str]:
    """The page's code, with the tiny model's dimension."""
    return [re.sub(r"([\[(])384([\])])", r"\g<1>32\2", code) for code in code_of(page, language)]


def block_of(page: str, library: str) -> str:
    """The only block that imports a library, which may not be installed."""
    (code,) = [code for code in blocks(page, "python") if imports(code, library)]
    return code


def imports(code: str, *libraries: str) -> bool:
    return any(re.search(rf"^(from|import) {library}\b", code, re.MULTILINE) for library in libraries)


@pytest.fixture(scope="module")
def exported(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of the project, with what the first commands of docs/exporting.md write, as the current folder."""
    root = tmp_path_factory.mktemp("docs") / "project"
    shutil.copytree(built, root)
    lines = [line for block in blocks("exporting.md", "sh") for line in block.splitlines()]
    commands = [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("gnn-encoder ")]
    assert [command[2] for command in commands] == ["sentence-transformers", "onnx", "parquet", "beir"]
    more = [["export", "--to", name, f"exported/{name}"] for name in ("faiss", "qdrant")]
    with chdir(root):
        for command in [*commands, *more]:
            result = CliRunner().invoke(cli.app, command)
            assert result.exit_code == 0, result.output
        yield root


def ids(row: Any) -> str:
    """The passage of a row as each engine gives it."""
    if isinstance(row, dict):
        return str(row["pid"])
    if isinstance(row, tuple):
        return str(row[0])
    return str(row.payload["pid"] if hasattr(row, "payload") else row)


def test_python(exported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    for code in blocks("python.md", "python"):
        if not imports(code, "haystack"):
            exec(code, names)  # noqa: S102
    expected = top(Searcher.open(INDEX), ASKED)
    out = capsys.readouterr().out
    assert [line.split()[2] for line in out.splitlines()[:10]] == expected
    assert "\nthe query is empty: give it some words\n" in out and str(expected)[:-1] in out
    documents = names["documents"]
    assert [document.id for document in documents] == expected[:5]
    best = Searcher.open(INDEX).search(ASKED, 1)[0]
    assert documents[0].page_content == best.text
    assert documents[0].metadata == {
        "title": best.title,
        "score": best.score,
    }
    assert type(names["searcher"].encoder).__name__ == "OnnxQueryEncoder" and top(names["searcher"], ASKED) == expected


def test_haystack(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HAYSTACK_TELEMETRY_ENABLED", "False")
    pytest.importorskip("haystack", reason="haystack-ai is not installed")
    names: dict[str, Any] = {}
    exec(block_of("python.md", "haystack"), names)  # noqa: S102
    hits = Searcher.open(INDEX).search(ASKED, 5)
    found = [(one.id, one.content, one.score, one.meta) for one in names["documents"]]
    assert found == [(hit.pid, hit.text, hit.score, {"title": hit.title}) for hit in hits]


def test_pgvector(exported: Path, postgres: str) -> None:
    names: dict[str, Any] = {"vectors": Searcher.open(INDEX).encoder.embed_queries([ASKED])}
    code = block_of("exporting.md", "psycopg")
    assert "postgresql://localhost/postgres" in code
    exec(code.replace("postgresql://localhost/postgres", postgres), names)  # noqa: S102
    hits = Searcher.open(INDEX).search(ASKED, 10)
    assert [pid for pid, _ in names["found"]] == [hit.pid for hit in hits]
    assert [score for _, score in names["found"]] == pytest.approx([hit.score for hit in hits], abs=1e-5)


def test_exporting(exported: Path) -> None:
    expected, names, engines = top(Searcher.open(INDEX), ASKED), {}, 0
    for code in blocks("exporting.md", "python"):
        if imports(code, "psycopg"):
            continue
        names.pop("found", None)
        exec(code, names)  # noqa: S102
        if "found" in names:
            found = names["found"][0] if isinstance(names["found"][0], list) else names["found"]
            assert [ids(row) for row in found] == expected, code
            engines += 1
    assert engines == 4
    assert 0 < names["ndcg"]["NDCG@10"] < 1
