import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import yaml

from gnn_encoder import Searcher, cli
from gnn_encoder.base.errors import UserError, report_errors
from gnn_encoder.base.matrix import ArrayManifest, ArrayWriter
from gnn_encoder.base.tables import PASSAGES, write_table
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import BM25, load_params
from gnn_encoder.pipeline.project import registry, title_of
from gnn_encoder.search.bm25 import BM25Index
from gnn_encoder.search.faiss_index import build
from gnn_encoder.text.encoder import DualEncoder, EmbeddedQueries

from .project import ROOT, call
from .small import make_hybrid

TEXTS = ["Medicare pays for some things", "Whole life lasts " + "very " * 40 + "long", "Cars need cover"]
VECTORS = np.array([[1, 0, 0], [0, 2, 0], [0, 0.5, 1]], dtype=np.float32)


class FakeEncoder:
    """Looks for three words."""

    def for_inference(self) -> "FakeEncoder":
        return self

    def read_queries(self, texts: Sequence[str]) -> EmbeddedQueries:
        vectors = [[float(word in text) for word in ("medicare", "life", "car")] for text in texts]
        return EmbeddedQueries(np.array(vectors, np.float32), np.array([len(text) > 100 for text in texts]))


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with an index of three passages, as the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(DualEncoder, "load", lambda model, precision: FakeEncoder())
    (tmp_path / "systems.yaml").write_bytes((ROOT / "systems.yaml").read_bytes())
    write_table(project.PASSAGES, PASSAGES, [pa.table([["p0", "p1", "p2"], ["", "Lives", ""], TEXTS], schema=PASSAGES)])
    folder = project.embeddings("gnn_encoder")
    with ArrayWriter(folder, (3, 3), "float32") as writer:
        writer.write(0, VECTORS)
        writer.finish(
            ArrayManifest(shape=(3, 3), dtype="float32", model_fingerprint="", input_fingerprint="", fingerprint="f")
        )
    build(folder, project.index("gnn_encoder"), factory="Flat", pids=project.PASSAGES, system="gnn_encoder", seed=0)
    return tmp_path


def test_control_characters_of_passages_do_not_reach_the_terminal(root: Path) -> None:
    text = "\x1b]0;title\x07 medicare \x9b2J text"
    columns = [["p\x1b[31m0", "p1", "p2"], ["a\nb\x07", "Lives", ""], [text, *TEXTS[1:]]]
    write_table(project.PASSAGES, PASSAGES, [pa.table(columns, schema=PASSAGES)])
    folders = project.embeddings("gnn_encoder"), project.index("gnn_encoder")
    build(*folders, factory="Flat", pids=project.PASSAGES, system="gnn_encoder", seed=0)
    code, out, _ = call("search", "medicare", "-k", "1")
    assert (code, out.splitlines()[0].split("  ")[-2:]) == (0, ["p\\x1b[31m0", "a b\\x07"])
    assert out.splitlines()[1] == "     \\x1b]0;title\\x07 medicare \\x9b2J text"
    out = call("search", "medicare", "-k", "1", "--json")[1]
    assert out.rstrip("\n").isprintable() and json.loads(out)["hits"][0]["text"] == text


@pytest.mark.parametrize(("source", "told"), [("insuranceqa", ""), ("beir", "This index is of other data than")])
def test_search_says_that_the_index_is_of_other_data(root: Path, source: str, told: str) -> None:
    params = yaml.safe_load((ROOT / "params.yaml").read_text())
    (root / "params.yaml").write_bytes((ROOT / "params.yaml").read_bytes())
    made = {"data": load_params().data.model_dump() | {"source": source}, "seed": params["seed"]}
    (project.PREPARED / "manifest.json").write_text(json.dumps({"params": made}))
    code, out, err = call("search", "a life", "--top", "1")
    assert code == 0 and "p1" in out and (err.startswith(told) if told else err == "")


def test_search_prints_rank_score_id_title_and_wrapped_text(root: Path) -> None:
    code, out, _ = call("search", "what is life", "-k", "2")
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "  1    2.0000  p1  Lives"
    assert lines[1].startswith("     Whole life lasts very") and max(map(len, lines)) <= 100
    assert "  2    0.5000  p2" in lines
    assert " ms" not in out


def test_json(root: Path) -> None:
    code, out, _ = call("search", "life", "--top", "1", "--json")
    answer = json.loads(out)
    assert code == 0 and answer["query"] == "life" and answer["milliseconds"] >= 0 and not answer["truncated"]
    assert answer["hits"] == [{"rank": 1, "score": 2.0, "pid": "p1", "title": "Lives", "text": TEXTS[1]}]


def test_a_query_that_is_not_read_whole(root: Path) -> None:
    _, _, err = call("search", "life " * 30)
    assert "the query is longer than encoder.query_length: the encoder does not read its end" in err
    assert json.loads(call("search", "life " * 30, "--json")[1])["truncated"]


def test_a_passage_of_several_views_is_found_once_by_its_best(root: Path) -> None:
    folder, views = project.embeddings("dual_cross"), np.array([[1, 0, 0], [0, 3, 0], [0, 2, 0], [0, 1, 5]], np.float32)
    views = np.concatenate([views, [[0, 1.5, 0], [0, 0, 0]]]).astype(np.float32)  # two of each passage
    names = {"model_fingerprint": "", "input_fingerprint": "", "fingerprint": "f"}
    with ArrayWriter(folder, (6, 3), "float32") as writer:
        writer.write(0, views)
        writer.finish(ArrayManifest(shape=(6, 3), dtype="float32", views=2, **names))
    build(folder, project.index("dual_cross"), factory="Flat", pids=project.PASSAGES, system="dual_cross", seed=0)
    _, out, _ = call("search", "life", "--system", "dual_cross", "--top", "9", "--json")
    assert [(hit["rank"], hit["score"], hit["pid"]) for hit in json.loads(out)["hits"]] == [
        *((1, 3.0, "p0"), (2, 2.0, "p1"), (3, 1.5, "p2"))
    ]


def test_from_python_in_another_folder(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    os.chdir(tmp_path_factory.mktemp("elsewhere"))
    opened = Searcher.open(root / "data" / "indexes" / "gnn_encoder")
    hits = opened.search("what is life", k=2)
    assert [(hit.rank, hit.score, hit.pid, hit.title, hit.text) for hit in hits] == [
        (1, 2.0, "p1", "Lives", TEXTS[1]),
        (2, 0.5, "p2", "", TEXTS[2]),
    ]
    assert len(opened.search("life")) == 3 and Path.cwd() != root


@pytest.mark.parametrize(
    ("folder", "message"),
    [
        ("data/indexes", "must be the folder data/indexes/SYSTEM of a project"),
        ("data/indexes/bm25", "'bm25' must be one of untouched, retriever, "),
        ("data/indexes/pair", "data/indexes/pair/manifest.json: not built yet"),
    ],
)
def test_what_is_no_index(root: Path, folder: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Searcher.open(folder)


@pytest.mark.parametrize(
    ("query", "k", "message"), [(" \u200b", 3, "the query is empty"), ("life", 0, "k is 0: must be 1")]
)
def test_what_cannot_be_searched(root: Path, query: str, k: int, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Searcher.open("data/indexes/gnn_encoder").search(query, k)


def test_interactive_reads_queries_line_by_line(root: Path) -> None:
    assert call("search", "car", "-i", stdin="life\n")[1].count(" ms\n") == 2
    code, out, _ = call(
        "search", "--interactive", "--json", "--top", "1", stdin="\ufeffmedicare\n\n  life \n\ufeff\ncar"
    )
    answers = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [(a["query"], a["hits"][0]["pid"]) for a in answers] == [
        *(("medicare", "p0"), ("life", "p1"), ("car", "p2"))
    ]


def test_bytes_that_are_no_text_are_told(root: Path) -> None:
    assert call("search", "\udcff") == (2, "", "error: the query is not UTF-8: convert it\n")
    code, out, err = call("search", "-i", "--json", stdin=b"car\n\ncaf\xe9\n\xe2\x80\x8b\nlife\n")  # and one unseen
    assert (code, err) == (0, "! line 3 is not UTF-8, and passed over: convert it\n")
    assert [json.loads(line)["query"] for line in out.splitlines()] == ["car", "life"]


@pytest.fixture
def hybrid(root: Path) -> Path:
    """The project with BM25's index and a fusion: BM25 and gnn_encoder equally, each with all three passages."""
    make_hybrid(0.5, 3)
    return root


def test_hybrid_search(hybrid: Path) -> None:
    """Inner products are 0, 2 and 0.5. BM25 finds p1 alone, which is 1 beside -1 of the others."""
    _, out, _ = call("search", "life", "--hybrid", "--json")
    hits = json.loads(out)["hits"]
    dense = np.array([2, 0.5, 0])
    assert [hit["pid"] for hit in hits] == ["p1", "p2", "p0"]
    expected = 0.5 * (dense - dense.mean()) / dense.std() + 0.5 * np.array([1, -1, -1])
    assert [hit["score"] for hit in hits] == pytest.approx(expected.tolist(), abs=1e-6)


@pytest.mark.parametrize("missing", ["data/indexes/bm25/params.index.json", "data/runs/hybrid/choice.json"])
def test_what_is_not_built_is_told_with_one_cure(root: Path, hybrid: Path, missing: str) -> None:
    Path(missing).unlink()
    others = "`dvc repro pipelines/NAME/dvc.yaml` another, `dvc repro -P` all"
    cure = f"not built yet; `bash scripts/reproduce.sh` builds the main branch, {others}\n"
    assert call("search", "life", "--hybrid") == (2, "", f"error: {missing}: {cure}")


def test_bm25_s_index_of_other_passages(hybrid: Path) -> None:
    other = Path("other.parquet")
    write_table(other, PASSAGES, [pa.table([["p0"], [""], ["one word"]], schema=PASSAGES)])
    BM25Index.build(other, BM25(depth=5, stop_words="english", stemmer=None)).save(project.index("bm25"))
    code, _, err = call("search", "life", "--hybrid")
    assert code == 2 and err.startswith("error: data/indexes/bm25: holds 1 passages, data/indexes/gnn_encoder has 3")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["search"], "no query: put one in quotes"),
        (["search", "  "], "the query is empty"),
        (["search", "x", "--system", "dual_encoder"], "data/indexes/dual_encoder/manifest.json: not built yet"),
    ],
)
def test_mistakes_in_one_line(root: Path, arguments: list[str], message: str) -> None:
    code, out, err = call(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {message}") and err.count("\n") == 1


def test_values_that_cannot_be_taken_in_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "access", lambda *arguments: False)  # a superuser may read every file
    for arguments, name, rule in (
        (("init", "--data", "beir", "--path", str(tmp_path)), "'--path'", f"ath '{tmp_path}' is not readable"),
        (("search", "x", "--top", "0"), "'--top' / '-k'", " 1"),
    ):
        code, out, err = call(*arguments)
        assert (code, out) == (2, "") and err.startswith(f"error: Invalid value for {name}: ")
        assert err.endswith(f"{rule}; `gnn-encoder {arguments[0]} --help` says what it takes\n")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["search", "two", "words"], "Got unexpected extra argument(s) (words); `gnn-encoder search --help`"),
        (
            ["search", "x", "--sytem", "no_gnn"],
            "No such option: --sytem (Possible options: --system); `gnn-encoder search --help`",
        ),
        (["evaluate"], "Missing argument 'run'; `gnn-encoder evaluate --help`"),
        (["serach"], "No such command 'serach'"),
    ],
)
def test_what_a_command_does_not_take_in_one_line(arguments: list[str], told: str) -> None:
    code, out, err = call(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {told}") and err.endswith(" says what it takes\n") and err.count("\n") == 1


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
def test_index_of_other_passages(root: Path, pids: list[str], told: str) -> None:
    columns = [pids, [""] * len(pids), TEXTS[: len(pids)]]
    write_table(project.PASSAGES, PASSAGES, [pa.table(columns, schema=PASSAGES)])
    assert call("search", "life") == (2, "", f"error: data/indexes/gnn_encoder: {told} (`dvc repro`)\n")


VALUES = pl.DataFrame({"system": "dual_encoder", "split": "test", "qid": ["q1", "q2"], "measure": "R@7", "value": 0.5})


@pytest.mark.parametrize(
    ("asked", "source", "told"),
    [
        (["q1", "q2", "q3"], "insuranceqa", ""),
        (["q1", "q2"], "beir", "! these figures are of other data than insuranceqa"),
        (None, "insuranceqa", "! nothing has run in this clone: these are the committed figures"),
    ],
)
def test_results_tell_what_they_are_not_of(root: Path, asked: list[str] | None, source: str, told: str) -> None:
    """`asked`: the test queries that were prepared; None: nothing was measured."""
    shutil.copytree(ROOT / "metrics", root / "metrics")
    (root / "params.yaml").write_bytes((ROOT / "params.yaml").read_bytes())
    if asked is not None:
        made = {"data": load_params().data.model_dump() | {"source": source}, "seed": load_params().seed}
        (project.PREPARED / "manifest.json").write_text(json.dumps({"params": made}))
        project.queries("test").parent.mkdir()
        pl.DataFrame({"qid": asked}).write_parquet(project.queries("test"))
        for system in registry().branches["gnn_encoder"].systems:
            project.measured(system).mkdir(parents=True)
            VALUES.write_parquet(project.measured(system) / project.VALUES)
    code, out, err = call("results")
    assert code == 0 and "| GNN-encoder" in out and (err.startswith(told) if told else err == "")
    if asked is not None:  # what is prepared later is other data
        pl.DataFrame({"qid": ["a1", "a2"]}).write_parquet(project.queries("test"))
        assert call("results")[0] == 2


def test_results_of_all_branches(root: Path) -> None:
    shutil.copytree(ROOT / "metrics", root / "metrics")
    for split in ("dev", "test"):  # one branch may have been evaluated after the others
        compared = json.loads((root / "metrics" / f"{split}.json").read_text())
        for path in (root / "metrics").glob(f"*/{split}.json"):
            path.write_text(
                json.dumps({name: compared[name] for name in json.loads(path.read_text()) if name in compared})
            )
    (root / "params.yaml").write_bytes((ROOT / "params.yaml").read_bytes())
    code, out, _ = call("results", "all")
    assert code == 0 and out.startswith("Test queries: all systems") and "\nGNN-encoder against " in out
    assert all(f"| {title_of(system)} " in out for system in ("bm25", "gnn_encoder", "pair", "dual_cross"))
    path = root / "metrics" / "gnn_encoder" / "test.json"
    means = json.loads(path.read_text())
    path.write_text(json.dumps(means | {"dual_encoder": means["dual_encoder"] | {"RR@10": 0.5}}))
    _, out, _ = call("results", "all")
    assert "Test queries: all systems" not in out, "what has run since has other figures"
    shutil.rmtree(root / "metrics")
    code, _, err = call("results", "all")
    assert code == 2 and err.startswith("error: metrics/gnn_encoder: not built yet; `bash scripts/reproduce.sh`")


def test_help_lists_every_command_in_a_whole_sentence_and_each_has_an_example() -> None:
    _, out, _ = call("--help")
    assert "..." not in out[out.index("Commands:") :]
    commands = [command.name or command.callback.__name__ for command in cli.app.registered_commands]
    assert commands and all(f"  {name} " in out for name in commands)
    for name in commands:
        assert f"\n  Examples:\n    gnn-encoder {name}" in call(name, "--help")[1]


def test_systems_are_the_dense_ones() -> None:
    told = f"error: --system is 'bm25': must be one of {', '.join(registry().dense)}; --hybrid searches BM25"
    code, _, err = call("search", "what is life", "--system", "bm25")
    assert code == 2 and err.startswith(told)


@pytest.mark.parametrize(
    ("modules", "heavy"),
    [
        ("cli", "torch transformers faiss polars pyarrow"),
        (
            "search.faiss_index, gnn_encoder.evaluation.measures, gnn_encoder.presenting.stored",
            "torch matplotlib",
        ),
        ("controls.hybrid", "torch transformers"),
    ],
)
def test_imports_are_light(modules: str, heavy: str) -> None:
    code = f"import sys, gnn_encoder.{modules}; print(sorted(set({heavy.split()}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(("given", "expected"), [({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE")])
def test_threads_are_told_not_to_spin_before_torch_is_loaded(given: dict[str, str], expected: str) -> None:
    code = "import gnn_encoder, os, sys; print(os.environ['OMP_WAIT_POLICY'], 'torch' in sys.modules)"
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"} | given
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=ROOT)
    assert found.stdout == f"{expected} False\n"
