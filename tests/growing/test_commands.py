"""The commands as a user meets them: what they print, which mistakes they tell, and what a search then finds."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from gnn_encoder import Searcher, cli, searcher
from gnn_encoder.baselines.choice import Choice, Setting, Tried, write_choice
from gnn_encoder.baselines.query_mean import QueryMeans, Shift
from gnn_encoder.core.storage.arrays import Origin, open_matrix
from gnn_encoder.encoding.corpus import transform_corpus
from gnn_encoder.growing import commands
from gnn_encoder.growing.encoding import TextEncoder
from gnn_encoder.growing.overlay import Overlay, read_manifest
from gnn_encoder.growing.place import folder_of
from gnn_encoder.index.bm25 import BM25Index
from gnn_encoder.index.build import build
from gnn_encoder.index.params import BM25
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params

from .projects import BASE
from .small import SYSTEM, HashGrower, jsonl, make, vector

BUILT = {f"p{i}": f"text {i}" for i in range(20)}


class TextIsVector:
    """Embeds a query as the passage of the same text."""

    def embed_queries(self, texts: list[str]) -> np.ndarray:
        return np.stack([vector(text) for text in texts])


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with an index of twenty passages, as the current folder; a passage is the best for its own text."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(commands, "open_grower", HashGrower)
    monkeypatch.setattr(searcher, "load_encoder", lambda folder: TextIsVector())
    make(tmp_path, BUILT)
    return tmp_path


def call(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli.app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


def best(text: str, *options: str) -> dict[str, object]:
    code, out, err = call("search", text, "--json", "--top", "1", *options)
    assert code == 0, err
    hit: dict[str, object] = json.loads(out)["hits"][0]
    return hit


def test_add_delete_and_search(root: Path) -> None:
    path = root / "new.jsonl"
    path.write_text('{"_id": "n1", "title": "Cats", "text": "a cat"}\n{"_id": "p3", "text": "text 3, changed"}\n')
    code, out, _ = call("add", str(path))
    assert code == 0 and out.startswith(
        "gnn_encoder: 2 passages added, 1 of them in place of older versions; 21 passages can be found ("
    )
    found = best("a cat")
    assert (found["pid"], found["title"], found["text"]) == ("n1", "Cats", "a cat")
    assert best("text 3, changed")["pid"] == "p3" and best("text 3")["text"] != "text 3"
    code, out, _ = call("delete", "n1", "p7")
    assert code == 0 and out.startswith("gnn_encoder: 2 passages deleted; 19 passages can be found (")
    everything = [hit.pid for hit in Searcher.open("data/indexes/gnn_encoder").search("a cat", k=50)]
    assert sorted(everything) == sorted({*BUILT} - {"p7"})
    path.write_text('{"_id": "p7", "text": "back again"}\n')
    assert call("add", str(path))[0] == 0
    assert best("back again")["pid"] == "p7"


@pytest.mark.parametrize("merged", [False, True])
def test_a_passage_is_deleted_once(root: Path, merged: bool) -> None:
    call("add", str(jsonl(root / "a.jsonl", {"n1": "one", "n2": "two"})))
    call("delete", "n1", "p7")
    if merged:
        assert call("compact")[0] == 0
    for pid in ("n1", "p7"):
        code, _, err = call("delete", pid)
        assert (code, err) == (
            2,
            f"error: argument 1: passage {pid!r} was deleted before; nothing is deleted: leave out what is not there\n",
        )


def test_every_other_result_keeps_its_place(root: Path) -> None:
    before = Searcher.open("data/indexes/gnn_encoder").search("text 5", k=20)
    call("delete", before[4].pid, before[9].pid)
    after = Searcher.open("data/indexes/gnn_encoder").search("text 5", k=20)
    kept = [hit for place, hit in enumerate(before) if place not in (4, 9)]
    assert [hit.pid for hit in after] == [hit.pid for hit in kept]
    np.testing.assert_allclose([hit.score for hit in after], [hit.score for hit in kept], rtol=1e-6)


def test_from_python_in_another_folder(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    call("add", str(jsonl(root / "a.jsonl", {"n1": "one"})))
    call("delete", "p3")
    os.chdir(tmp_path_factory.mktemp("elsewhere"))
    opened = Searcher.open(root / "data" / "indexes" / SYSTEM)
    hits = opened.search("one", k=50)
    assert hits[0].pid == "n1" and len(hits) == 20 and "p3" not in {hit.pid for hit in hits}


def test_compact_says_what_it_did(root: Path) -> None:
    call("add", str(jsonl(root / "a.jsonl", {"n1": "one"})))
    assert call("compact")[1].startswith("gnn_encoder: nothing to merge; 21 passages can be found (")
    call("add", str(jsonl(root / "a.jsonl", {"n2": "two"})))
    assert call("compact")[1].startswith("gnn_encoder: 2 segments merged; 22 passages can be found (")
    assert call("compact", "--all")[1].startswith(
        "gnn_encoder: 1 segment merged, and indexed together with the built passages; 22 passages can be found ("
    )
    assert [best(text)["pid"] for text in ("one", "two", "text 0")] == ["n1", "n2", "p0"]
    manifest = read_manifest(SYSTEM)
    assert manifest is not None and [entry.indexed for entry in manifest.segments] == [True]


@pytest.mark.parametrize(
    ("weight", "line", "warned"),
    [(-2.0, "what\tp1", True), (2.0, "what\tp1", False), (-2.0, "what", False), (-2.0, "what\tp1\t0", False)],
)
def test_log_warns_where_labels_lower_passages(root: Path, weight: float, line: str, warned: bool) -> None:
    tried = Tried(setting={"weight": weight}, value=0.5)
    write_choice(project.RUNS / "label_prior", Choice(measure="RR@10", queries=9, chosen=tried, tried=[tried]))
    (root / "log.tsv").write_text(line)
    code, _, err = call("log", "log.tsv")
    assert code == 0 and ("! the passages that these queries are labelled with may fall: " in err) == warned


def test_the_pipeline_s_artifacts_stay_as_they_are(root: Path) -> None:
    before = {path: path.read_bytes() for path in sorted(Path("data").rglob("*")) if path.is_file()}
    call("add", str(jsonl(root / "a.jsonl", {"n1": "one", "p1": "changed"})))
    call("delete", "p2")
    call("compact", "--all")
    after = {path: path.read_bytes() for path in sorted(Path("data").rglob("*")) if path.is_file()}
    assert {path: after[path] for path in before} == before
    assert all(path.is_relative_to("data/grown") for path in after.keys() - before.keys())


WRONG = [
    ("add.jsonl", "{", "line 1: '{' is not JSON (Expecting property name"),
    ("add.jsonl", '{"text": "a"}', "line 1, _id: missing; give every row an id of its own"),
    ("add.jsonl", '{"_id": 3, "text": "a"}', "line 1, _id: 3 is not a string; put it in quotes"),
    ("add.jsonl", '{"_id": "a"}', "line 1, text: missing; add it or remove the row"),
    ("add.jsonl", '{"_id": "a", "text": "b"}\n{"_id": "c", "text": " "}', "line 2, text: ' ' is empty; give it a text"),
    (
        "add.jsonl",
        '{"_id": "a", "text": "b"}\n{"_id": "a", "text": "c"}',
        "line 2, _id: 'a' is also the id in line 1; give each row its own",
    ),
    ("add.jsonl", "", "is empty; write one row a line"),
    ("log.tsv", "a\tb\tc\td", "line 1: 4 columns; write at most query, pid, count with a tab between them"),
    ("log.tsv", '{"query": "oven"}', """line 1, query: '{"query": "oven"}' looks like JSON; write `query`, or"""),
    ("log.tsv", "query\tpid\n?\tp1", "line 2, query: '?' has no word; give it some or remove the line"),
    ("log.tsv", "what\tp1\tmany", "line 1, count: 'many' is not a whole number from 0 on; correct it"),
    ("log.tsv", "what\tp1\nwho\tnobody\nwho\tnone", "line 2, pid: no passage 'nobody' is in data/indexes/gnn_encoder"),
    ("log.tsv", "what\tp 1", "line 1, pid: 'p 1' has white space"),
    ("log.tsv", "query\tpid", "no queries; write one a line"),
    (
        "pids.txt",
        "p1\nunknown\nother",
        "line 2: no passage 'unknown' is in data/indexes/gnn_encoder (and 1 more); nothing is deleted: leave out ",
    ),
    ("pids.txt", "p1\n\np2", "line 2: empty; remove the line"),
]


@pytest.mark.parametrize(("name", "text", "message"), WRONG)
def test_wrong_rows(name: str, text: str, message: str, root: Path) -> None:
    """Each is told with its file and line, nothing changes, and the next command removes what was half done."""
    Path(name).write_text(text)
    command = {"add.jsonl": ["add", name], "log.tsv": ["log", name], "pids.txt": ["delete", "--file", name]}[name]
    code, _, err = call(*command)
    assert code == 2 and err.startswith(f"error: {name}") and message in err and err.count("\n") == 1
    assert read_manifest(SYSTEM) is None
    assert call("delete", "p1")[0] == 0
    assert sorted(path.name for path in folder_of(SYSTEM).iterdir()) == ["000001", "lock", "manifest.json"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["add"], "give a file of passages or --again: one of the two"),
        (["add", "missing.jsonl"], "missing.jsonl: no such file; correct the path"),
        (["add", "--again"], "data/indexes/gnn_encoder: nothing was added to it or deleted from it; leave out --again"),
        (["delete"], "no passage is named: give ids, or a file with one a line as --file"),
        (["delete", "p1", "x"], "argument 2: no passage 'x' is in data/indexes/gnn_encoder; nothing is deleted"),
        (
            ["delete", "p1", "--system", "dual_cross"],
            "--system is 'dual_cross': its passages have several vectors",
        ),
        (
            ["delete", "p1", "--system", "label_prior"],
            "it reorders what dual_encoder finds and has no vectors; ",
        ),
        (["delete", "p1", "--system", "bm25"], "--system is 'bm25': must be one of untouched, retriever, "),
        (["delete", "p1", "--system", "pair"], "data/indexes/pair/manifest.json: no such file; make it first (`dvc"),
    ],
)
def test_mistakes(arguments: list[str], message: str, root: Path) -> None:
    code, _, err = call(*arguments)
    assert code == 2 and message in err and err.startswith("error: ") and err.count("\n") == 1
    assert read_manifest(SYSTEM) is None


def test_another_build_of_the_index(root: Path) -> None:
    """Nothing is used or dropped in silence. --again: deleted ones stay deleted, what the build has now is left out."""
    call("add", str(jsonl(root / "a.jsonl", {"n1": "one", "n2": "two", "n3": "three", "p4": "text 4, changed"})))
    call("delete", "p5", "n3")
    (root / "log.tsv").write_text("a query\tp6\n")
    call("log", "log.tsv")
    make(root, {**BUILT, "p20": "text 20", "n2": "two", "n3": "three"})
    code, _, err = call("search", "one")
    assert (
        code == 2
        and err.count("\n") == 1
        and err.startswith(
            "error: data/grown/gnn_encoder: what was added and deleted belongs to an older index than "
            "data/indexes/gnn_encoder; `gnn-encoder add --again --system gnn_encoder` brings it onto this one, and "
            "removing the folder drops it"
        )
    )
    for command in (["add", "a.jsonl"], ["delete", "p1"], ["compact"], ["log", "log.tsv"]):
        assert "belongs to an older index" in call(*command)[2]
    code, out, err = call("add", "--again")
    assert code == 0, err
    assert out.startswith("gnn_encoder: 2 passages added anew, 1 query taken in anew; 22 passages can be found (")
    everything = {hit.pid: hit.text for hit in Searcher.open("data/indexes/gnn_encoder").search("one", k=50)}
    assert everything == {
        **{pid: text for pid, text in BUILT.items() if pid != "p5"},
        **{"p20": "text 20", "n1": "one", "n2": "two", "p4": "text 4, changed"},
    }
    assert best("text 6!")["pid"] == "p6"  # informed by the logged query
    assert "belongs to this very index" in call("add", "--again")[2]


def test_queries_that_are_there_already(root: Path) -> None:
    (root / "log.tsv").write_text("query\tpid\tcount\nWhat is it?\tp1\t3\nwhat is IT\tp2\t1\nWho?\tp3\t0\n")
    code, out, _ = call("log", "log.tsv")
    assert code == 0 and out.startswith("gnn_encoder: 2 queries taken in, 2 passages informed anew; 20 passages")
    segment = Overlay(read_manifest(SYSTEM)).segments[0]
    assert pl.read_parquet(segment.queries)["text"].to_list() == ["What is it?", "Who?"]
    assert pl.read_parquet(segment.pairs).rows() == [(0, "p1"), (0, "p2")]
    (root / "log.tsv").write_text("what is it\tp5\nAnd this?\tp6\n")
    out = call("log", "log.tsv")[1]
    assert "1 query taken in, 1 passage informed anew; 1 query known already; 20 passages" in out
    out = call("log", "log.tsv")[1]
    assert "0 queries taken in, 0 passages informed anew; 2 queries known already; 20 passages" in out
    assert len(Overlay(read_manifest(SYSTEM)).segments) == 2
    (root / "log.tsv").write_text("Nothing was chosen for this\n")
    assert "1 query taken in, 0 passages informed anew; 20 passages" in call("log", "log.tsv")[1]
    assert "3 segments merged" in call("compact")[1] and best("text 1!")["pid"] == "p1"
    out = call("log", "log.tsv")[1]
    assert "1 query known already" in out


def test_hybrid(root: Path) -> None:
    """BM25's index is of the built passages: deleted ones do not come back; added ones come by their vectors."""
    BM25Index.build(project.PASSAGES, BM25(k1=0.9, b=0.4, depth=5)).save(project.index("bm25"))
    half = Tried(setting={"by": "scores", "weight": 0.5}, value=0.5)
    facts: Setting = {"dense": SYSTEM, "depth": 5}
    write_choice(project.RUNS / "hybrid", Choice(measure="RR@10", queries=1, chosen=half, tried=[half], facts=facts))
    assert best("text 11", "--hybrid")["pid"] == "p11"
    call("delete", "p11")
    call("add", str(jsonl(root / "a.jsonl", {"n1": "zebra"})))
    found = json.loads(call("search", "text 11", "--hybrid", "--json", "--top", "20")[1])["hits"]
    assert len(found) >= 5 and "p11" not in [hit["pid"] for hit in found]
    assert best("zebra", "--hybrid")["pid"] == "n1"


def test_export_says_that_it_leaves_additions_out(root: Path) -> None:
    assert call("export", "--to", "npy", "out")[2] == ""
    call("delete", "p1")
    code, _, err = call("export", "--to", "npy", "another")
    assert code == 0 and "gnn_encoder has grown since it was built: added and deleted passages do not count here" in err


def test_a_damaged_manifest(root: Path) -> None:
    call("delete", "p1")
    (folder_of(SYSTEM) / "manifest.json").write_text('{"format": 2}')
    code, _, err = call("search", "text")
    assert code == 2 and "data/grown/gnn_encoder/manifest.json: not the manifest of a grown index (format: " in err
    shutil.rmtree(folder_of(SYSTEM))
    assert best("text 1")["pid"] == "p1"


def test_a_missing_file(root: Path) -> None:
    call("add", str(jsonl(root / "a.jsonl", {"n1": "one"})))
    (folder_of(SYSTEM) / "000001" / "vectors.npy").unlink()
    code, _, err = call("search", "text")
    assert code == 2 and err.startswith("error: data/grown/gnn_encoder/000001/vectors.npy: no such file, which data/gr")


# --- systems with models ----------------------------------------------------------------------------------------------

Copies = Callable[[str], Params]
NEW = {"n1": "bread in a warm oven", "n2": "balls of ice and dust"}


def vectors(system: str) -> dict[str, np.ndarray]:
    overlay = commands.open_overlay(system)
    segments = [one for one in overlay.segments if one.entry.passages]
    return {
        pid: one.vectors[row]
        for one in segments
        for row, pid in enumerate(pl.read_parquet(one.passages)["pid"])
        if one.first_row + row not in overlay.dead
    }


def test_a_dual_encoder(project_of: Copies, tmp_path: Path) -> None:
    project_of("product")
    assert call("add", str(jsonl(tmp_path / "a.jsonl", NEW)), "--system", BASE)[0] == 0
    encoder = DualEncoder.load(project.encoder(BASE), precision="fp32").for_inference()
    expected = encoder.embed_queries(list(NEW.values()))  # shared, and shorter than both limits
    np.testing.assert_allclose(np.stack(list(vectors(BASE).values())), expected, atol=1e-5)
    (tmp_path / "log.tsv").write_text("what\n")
    code, _, err = call("log", str(tmp_path / "log.tsv"), "--system", BASE)
    assert code == 2 and "--system is 'dual_encoder': its passages are encoded alone, a log changes none of them" in err


def test_the_mean_of_labelled_queries(project_of: Copies, tmp_path: Path) -> None:
    """A passage that is added again keeps its training queries; a logged label shifts the passage further."""
    params = project_of("product")
    passages = pl.read_parquet(project.PASSAGES)
    labelled = pl.read_parquet(project.qrels("train")).filter(pl.col("grade") > 0)
    pid = labelled["pid"][0]
    row = passages["pid"].to_list().index(pid)
    qids = labelled.filter(pid=pid)["qid"]
    texts = pl.read_parquet(project.queries("train")).filter(pl.col("qid").is_in(qids.implode()))["text"].to_list()
    encoder = TextEncoder(project.encoder(BASE), params)
    h_p = open_matrix(project.embeddings(BASE))[row]
    _build_query_mean(params)
    call("delete", pid, "--system", "query_mean")
    again = passages[row].rename({"pid": "_id"}).to_dicts()[0]
    (tmp_path / "a.jsonl").write_text(json.dumps(again) + "\n")
    assert call("add", str(tmp_path / "a.jsonl"), "--system", "query_mean")[0] == 0
    expected = h_p + 0.5 * encoder.queries(texts).mean(axis=0)
    np.testing.assert_allclose(vectors("query_mean")[pid], expected / np.linalg.norm(expected), atol=1e-5)
    (tmp_path / "log.tsv").write_text(f"Something else entirely?\t{pid}\n")
    code, out, err = call("log", str(tmp_path / "log.tsv"), "--system", "query_mean")
    assert code == 0 and "1 query taken in, 1 passage informed anew" in out, err
    expected = h_p + 0.5 * encoder.queries([*texts, "Something else entirely?"]).mean(axis=0)
    np.testing.assert_allclose(vectors("query_mean")[pid], expected / np.linalg.norm(expected), atol=1e-5)


def _build_query_mean(params: Params) -> None:
    nothing = QueryMeans.of(pl.DataFrame({"query": [], "passage": []}), np.empty((0, 32), np.float32))
    shift = Shift(means=nothing, unit_length=True, dtype="float32")
    model = DualEncoder.fingerprint(project.encoder(BASE))
    transform_corpus(
        project.embeddings(BASE),
        project.embeddings("query_mean"),
        dtype="float32",
        origin=Origin(model_fingerprint=model, input_fingerprint=""),
        transform=lambda first, block: shift.block(first, block, 0.5),
    )
    half = Tried(setting={"weight": 0.5}, value=0.5)
    write_choice(project.embeddings("query_mean"), Choice(measure="RR@10", queries=1, chosen=half, tried=[half]))
    folders = project.embeddings("query_mean"), project.index("query_mean")
    build(*folders, factory="Flat", pids=project.PASSAGES, system="query_mean", seed=params.seed)


def test_a_model_that_was_trained_since(project_of: Copies, tmp_path: Path) -> None:
    project_of("product")
    config = project.encoder(BASE) / "dual_encoder.json"
    changed = config.read_text().replace('"query_length": 16', '"query_length": 12')
    config.unlink()  # it is a link
    config.write_text(changed)
    for system in (BASE, SYSTEM):
        code, _, err = call("add", str(jsonl(tmp_path / "a.jsonl", NEW)), "--system", system)
        assert (
            code == 2
            and ("data/embeddings/dual_encoder: another model than the present one made it; run `dvc repro cache_pass")
            in err
        )
