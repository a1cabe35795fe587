"""The command line: what each command prints, and how it ends. Of `init` that is in test_init.py."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from gnn_encoder import Searcher, cli
from gnn_encoder.base.errors import UserError, report_errors
from gnn_encoder.base.tables import PASSAGES
from gnn_encoder.evaluate.tables import DATA, data_key
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import load_params
from gnn_encoder.pipeline.project import registry

from .project import ROOT, call, refusal
from .small import fake_encoder, make, make_hybrid
from .texts import write

TEXTS = {"p0": "Medicare pays for some things", "p1": f"Whole life lasts {'very ' * 40}long", "p2": "Cars need cover"}
VECTORS = np.array([[1, 0, 0], [0, 2, 0], [0, 0.5, 1]], dtype=np.float32)


def looked_for(text: str) -> np.ndarray:
    """Which of three words stand in a query."""
    return np.array([word in text for word in ("medicare", "life", "car")], np.float32)


def prepared(source: str) -> None:
    """Stage prepare has run with this source; params.yaml has insuranceqa."""
    made = {"data": load_params().data.model_dump() | {"source": source}, "seed": load_params().seed}
    project.MADE_BY.write_text(json.dumps(made))


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with an index of three passages, as the current folder."""
    monkeypatch.chdir(tmp_path)
    fake_encoder(monkeypatch, looked_for)
    make(TEXTS, VECTORS, titles=["", "Lives", ""])
    prepared("insuranceqa")
    return tmp_path


def found(*arguments: str, stdin: str | bytes = "") -> list[dict[str, Any]]:
    """The answers of a search."""
    code, out, err = call("search", *arguments, "--json", stdin=stdin)
    assert (code, err) == (0, "")
    return [json.loads(line) for line in out.splitlines()]


# --- search -----------------------------------------------------------------------------------------------------------


def test_search_prints_rank_score_id_title_and_wrapped_text(root: Path) -> None:
    code, out, _ = call("search", "what is life", "-k", "2")
    lines = out.splitlines()
    assert code == 0 and lines[0] == "  1    2.0000  p1  Lives" and "  2    0.5000  p2" in lines
    assert lines[1].startswith("     Whole life lasts very") and max(map(len, lines)) <= 100
    hit = {"rank": 1, "score": 2.0, "pid": "p1", "title": "Lives", "text": TEXTS["p1"]}
    told = "the query is longer than encoder.query_length: the encoder does not read its end"
    assert told in call("search", "life " * 30)[2] and found("life " * 30)[0]["truncated"]
    assert found("life", "--top", "1") == [{"query": "life", "truncated": False, "hits": [hit]}]


def test_control_characters_of_passages_do_not_reach_the_terminal(root: Path) -> None:
    text = "\x1b]0;title\x07 medicare \x9b2J text"
    make({"p\x1b[31m0": text}, VECTORS[:1], titles=["a\nb\x07"])
    lines = call("search", "medicare")[1].splitlines()
    assert lines[0].split("  ")[-2:] == ["p\\x1b[31m0", "a b\\x07"]
    assert lines[1] == "     \\x1b]0;title\\x07 medicare \\x9b2J text"
    out = call("search", "medicare", "--json")[1]
    assert out.rstrip("\n").isprintable() and json.loads(out)["hits"][0]["text"] == text


def test_queries_of_stdin(root: Path) -> None:
    answers = found("--top", "1", stdin="\ufeffmedicare\n\n  life \n\ufeff\ncar")
    first = [(answer["query"], answer["hits"][0]["pid"]) for answer in answers]
    assert first == [("medicare", "p0"), ("life", "p1"), ("car", "p2")]
    code, out, err = call("search", "--json", stdin=b"car\ncaf\xe9\nlife\n")
    assert code == 2 and json.loads(out)["query"] == "car"
    assert err == "error: the query 'caf\\udce9' is not UTF-8: convert it\n"


def test_hybrid_search(root: Path) -> None:
    """Inner products are 0, 2 and 0.5. BM25, of weight 0.5, finds p1 alone, which is 1 beside -1 of the others."""
    make_hybrid(0.5, 3)
    hits = found("life", "--hybrid")[0]["hits"]
    dense = np.array([2, 0.5, 0])
    expected = 0.5 * (dense - dense.mean()) / dense.std() + 0.5 * np.array([1, -1, -1])
    assert [hit["pid"] for hit in hits] == ["p1", "p2", "p0"]
    assert [hit["score"] for hit in hits] == pytest.approx(expected.tolist(), abs=1e-6)
    make_hybrid(0.5, 2)
    assert call("search", "life", "--hybrid", "--top", "3")[2].startswith("error: k is 3: the hybrid was chosen for 2 ")


def test_from_python_in_another_folder(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    os.chdir(tmp_path_factory.mktemp("elsewhere"))
    opened = Searcher.open(root / "data" / "indexes" / "gnn_encoder_plus")
    hits = opened.search("what is life", k=2)
    assert [(hit.rank, hit.score, hit.pid, hit.title) for hit in hits] == [(1, 2.0, "p1", "Lives"), (2, 0.5, "p2", "")]
    assert len(opened.search("life")) == 3 and Path.cwd() != root
    for query, k, message in ((" \u200b", 3, "the query is empty"), ("life", 0, "k is 0: must be 1")):
        with pytest.raises(UserError, match=message):
            opened.search(query, k)
    with pytest.raises(UserError, match="must be the folder data/indexes/SYSTEM of a project"):
        Searcher.open(root / "data" / "indexes")


# --- how commands end -------------------------------------------------------------------------------------------------

BUILT = "not built yet; `bash scripts/reproduce.sh` builds the main branch, `dvc repro pipelines/NAME/dvc.yaml` another"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["search", "  "], "the query is empty"),
        (["search", "\udcff"], "the query '\\udcff' is not UTF-8: convert it"),
        (["search", "x", "--system", "dual_encoder"], f"data/indexes/dual_encoder/manifest.json: {BUILT}"),
        (["search", "x", "--system", "bm25"], "--system is 'bm25': must be one of untouched, "),
        (["search", "x", "--hybrid"], f"data/runs/hybrid/choice.json: {BUILT}"),
        (["search", "x", "--top", "0"], "Invalid value for '--top' / '-k': "),
        (["search", "two", "words"], "Got unexpected extra argument(s) (words); `gnn-encoder search --help` says what"),
        (["search", "x", "--sytem", "no_gnn"], "No such option: --sytem (Possible options: --system); `gnn-encoder "),
        (["evaluate"], "Missing argument 'run'; `gnn-encoder evaluate --help` says what it takes"),
        (["serach"], "No such command 'serach'"),
    ],
)
def test_a_mistake_is_one_line(root: Path, arguments: list[str], told: str) -> None:
    assert refusal(*arguments).startswith(told)


def test_of_a_long_error_the_ends_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit), report_errors():
        raise UserError(f"qrels.tsv, line 1: {'9' * 5000!r} has white space; remove it")
    err = capsys.readouterr().err
    assert err.startswith("error: qrels.tsv, line 1: '999") and err.endswith("9' has white space; remove it\n")
    assert len(err) < 1_800 and err.count("\n") == 1


@pytest.mark.parametrize(
    ("pids", "told"),
    [
        (["p0", "p1"], "holds 3 passages, data/prepared/passages.parquet has 2; build the index again"),
        (["p0", "p2", "p1"], "made of other passages than now; build it again"),
    ],
)
def test_an_index_of_other_passages(root: Path, pids: list[str], told: str) -> None:
    write(project.PASSAGES, PASSAGES, pids, [""] * len(pids), pids)
    assert refusal("search", "life") == f"data/indexes/gnn_encoder_plus: {told} (`dvc repro`)"


def test_an_index_whose_encoder_has_other_weights(root: Path) -> None:
    weights = project.encoder("gnn_encoder") / "model.safetensors"
    weights.parent.mkdir(parents=True, exist_ok=True)
    weights.write_bytes(b"of another training")
    told = (
        f"data/indexes/gnn_encoder_plus: {weights.parent} has other weights since; build the index again (`dvc repro`)"
    )
    assert refusal("search", "life") == told


def test_search_says_that_the_index_is_of_other_data(root: Path) -> None:
    prepared("beir")
    code, out, err = call("search", "a life", "--top", "1")
    assert code == 0 and "p1" in out and err.startswith("warning: this index is of other data than params.yaml")


# --- results ----------------------------------------------------------------------------------------------------------


def measured(branch: str) -> None:
    """The values of a branch's systems, of the data that are prepared now."""
    project.queries("test").parent.mkdir(exist_ok=True)
    pl.DataFrame({"qid": ["q1", "q2"]}).write_parquet(project.queries("test"))
    values = pl.DataFrame({"split": "test", "qid": ["q1", "q2"], "measure": "R@7", "value": 0.5})
    for system in registry().branches[branch].systems:
        project.measured(system).mkdir(parents=True)
        values.write_parquet(project.measured(system) / project.VALUES, metadata={DATA: data_key()})


@pytest.mark.parametrize(
    ("ran", "source", "told"),
    [
        (True, "insuranceqa", ""),
        (True, "beir", "warning: these figures are of other data than insuranceqa"),
        (False, "insuranceqa", "warning: nothing has run in this clone: these are the committed figures"),
    ],
)
def test_results_tell_what_they_are_not_of(root: Path, ran: bool, source: str, told: str) -> None:
    shutil.copytree(ROOT / "metrics", root / "metrics")
    prepared(source)
    if ran:
        measured("gnn_encoder")
    code, out, err = call("results")
    assert code == 0 and "| GNN-encoder" in out and (err.startswith(told) if told else err == "")
    if ran:  # another sample of the passages is other data
        make(dict(list(TEXTS.items())[:2]), VECTORS[:2])
        assert call("results")[0] == 2


def test_results_of_all_branches(root: Path) -> None:
    shutil.copytree(ROOT / "metrics" / "gnn_encoder", root / "metrics" / "gnn_encoder")
    (root / "metrics" / "pair").mkdir()
    for split in ("dev", "test"):
        means = {name: {"RR@10": 0.5} for name in registry().branches["pair"].systems}
        (root / "metrics" / "pair" / f"{split}.json").write_text(json.dumps(means))
    prepared("insuranceqa")
    code, out, err = call("results", "all")
    assert code == 0 and out.startswith("Dev queries: GNN-encoder") and "\nGNN-encoder's RR@10 above " in out
    assert all(f"| {title} " in out for title in ("BM25", "GNN-encoder", "PAIR")) and "nothing has run" in err
    measured("pair")  # alone
    code, out, err = call("results", "all")
    assert code == 0 and out.startswith("Dev queries: PAIR") and "GNN-encoder's" not in out and err == ""
    shutil.rmtree(root / "metrics")
    assert refusal("results", "all").startswith("metrics/gnn_encoder: not built yet; `bash scripts/reproduce.sh`")


# --- help and imports -------------------------------------------------------------------------------------------------


def test_help_lists_every_command_in_a_whole_sentence() -> None:
    _, out, _ = call("--help")
    assert "..." not in out[out.index("Commands:") :]
    commands = [command.name or command.callback.__name__ for command in cli.app.registered_commands]
    assert commands and all(f"  {name} " in out for name in commands)
    for name in commands:
        assert f"\n  Examples:\n    gnn-encoder {name}" in call(name, "--help")[1]


@pytest.mark.parametrize(
    ("modules", "heavy"),
    [
        ("cli", "torch transformers faiss polars pyarrow"),
        ("evaluate.measures, gnn_encoder.evaluate.tables", "torch matplotlib"),
    ],
)
def test_imports_are_light_and_threads_do_not_spin(modules: str, heavy: str) -> None:
    """torch, which is not loaded yet, reads once how threads wait."""
    loaded = f"{{*{heavy.split()}}} & {{*sys.modules}}"
    code = f"import gnn_encoder.{modules}, os, sys; print(os.environ['OMP_WAIT_POLICY'], {loaded})"
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "PASSIVE set()\n"
