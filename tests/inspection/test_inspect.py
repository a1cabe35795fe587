"""`gnn-encoder inspect` on the samples: what it prints."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from gnn_encoder import cli

ROOT = Path(__file__).parents[2]
TINY = ROOT / "tests" / "tiny"


@pytest.fixture
def inspect(tmp_path: Path, tiny_model: Path) -> Callable[..., tuple[int, str, str]]:
    def run(*options: str, **data: object) -> tuple[int, str, str]:
        params = yaml.safe_load((ROOT / "params.yaml").read_text())
        params["data"] = {"path": None, "train_queries": None, "dev_fraction": 0.1} | data
        params["encoder"] |= {"model": str(tiny_model), "query_length": 16, "passage_length": 40}
        (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
        result = CliRunner().invoke(cli.app, ["inspect", str(tmp_path / "params.yaml"), *options])
        return result.exit_code, result.stdout, result.stderr

    return run


def test_msmarco(inspect: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = inspect(source="msmarco", path=str(TINY / "msmarco"), test="trec_dl_2019")
    lines = out.splitlines()
    assert code == 0
    assert lines[0] == f"source msmarco: {TINY / 'msmarco'}"
    assert "  collection.tsv                   624 B" in lines
    assert "passages: 8, 0 with a title" in lines
    assert "  0 with title and text of an earlier one" in lines
    assert "train: 4 queries, of 5 in the file" in lines
    assert "  6 positives, 1.50 a query (1 to 2); judgements: 6 of grade 1" in lines
    # Of 3000 two, of 3001 two; the judgement of grade 0 is no positive.
    grades = "1 of grade 0, 2 of grade 1, 1 of grade 2, 1 of grade 3"
    assert f"  4 positives, 2.00 a query (2 to 2); judgements: {grades}" in lines
    assert len(re.findall(r"^  tokens \(all\): mean ", out, re.MULTILINE)) == 4


def test_answers(inspect: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = inspect(source="dpr", path=str(TINY / "dpr"), name="trivia")
    lines = out.splitlines()
    assert code == 0
    assert "passages: 6, 6 with a title" in lines
    assert "  2 answers, 2.00 a query (2 to 2)" in lines
    assert "    answers: 'St. Moritz', 'Sankt Moritz'" in lines
    first = 'Flying Scotsman | The "Flying Scotsman" first ran without a stop from London to Edinburgh in 1928.'
    assert f"  example 1: {first}" in lines


def test_sample_and_duplicates(inspect: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    folder = tmp_path / "source"
    folder.mkdir()
    for path in (TINY / "msmarco").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    with (folder / "collection.tsv").open("a") as file:
        file.write("8\tFog horns sounded where the light could not be seen.\n")
    code, out, _ = inspect("--sample", "3", source="msmarco", path=str(folder))
    assert code == 0
    assert "  1 with title and text of an earlier one" in out.splitlines()
    assert "  tokens (a random sample of 3): mean " in out


@pytest.mark.parametrize(
    ("train_queries", "cut", "line"),
    [
        (None, True, "of the train queries 6 become dev (data.dev_fraction)"),
        (40, True, "of the train queries 6 become dev (data.dev_fraction) and a sample of 40 is trained with "),
        (40, False, "of the train queries a sample of 40 is trained with (data.train_queries)"),
        (60, False, None),
        (None, False, None),
    ],
)
def test_queries_that_are_not_trained_with(
    inspect: Callable[..., tuple[int, str, str]], tmp_path: Path, train_queries: int | None, cut: bool, line: str | None
) -> None:
    """60 queries, a tenth of which becomes dev where there is no dev split."""
    folder = tmp_path / "source"
    shutil.copytree(TINY / "beir", folder)
    if cut:
        (folder / "qrels" / "dev.tsv").unlink()
    lines = inspect(source="beir", path=str(folder), train_queries=train_queries)[1].splitlines()
    told = [one for one in lines if one.startswith("of the train queries")]
    assert len(told) == (line is not None) and all(one.startswith(line or "") for one in told)


def test_a_log(inspect: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"_id": "p1", "text": "Ash is a tree. It has black buds."}\n')
    rows = "".join(f"query {i}\tp1\n" for i in range(20))
    (tmp_path / "log.tsv").write_text(f"query\tpid\n{rows}?\tp1\nash\tp2\n")
    code, out, _ = inspect(source="log", path=str(tmp_path), test_fraction=0.3)
    lines = out.splitlines()
    assert code == 0
    assert "  left out or replaced: 1 rows of unknown passages, 1 rows without a word" in lines
    assert "passages: 1, 0 with a title" in lines
    assert "  example p1: Ash is a tree. It has black buds." in lines


def test_queries_that_are_passages_but_those_that_are_judged(
    inspect: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    folder = tmp_path / "source"
    shutil.copytree(TINY / "beir", folder)
    text = "A whole passage that is asked for."
    with (folder / "corpus.jsonl").open("a") as file:
        file.write(json.dumps({"_id": "own", "text": text}) + "\n")
    other = json.loads((folder / "corpus.jsonl").read_text().partition("\n")[0])["_id"]
    for name, pid in (("asks", other), ("judged", "own")):
        with (folder / "queries.jsonl").open("a") as file:
            file.write(json.dumps({"_id": name, "text": text}) + "\n")
        with (folder / "qrels" / "test.tsv").open("a") as file:
            file.write(f"{name}\t{pid}\t1\n")
    assert inspect(source="beir", path=str(folder))[1].splitlines()[-1] == "queries that are passages themselves: 1"
