"""The commands as a user meets them: what they print, which mistakes they tell, and what a search then finds."""

import json
import os
import shutil
from pathlib import Path

import faiss
import polars as pl
import pyarrow.parquet as pq
import pytest

from gnn_encoder import Searcher
from gnn_encoder.controls.log import LABELLED, LabelledQueries
from gnn_encoder.growing.versions import CURRENT, current, folder_of
from gnn_encoder.pipeline import project
from gnn_encoder.search.faiss_index import PassageIndex

from ..project import call
from ..small import BUILT, SYSTEM, contents, jsonl, make, make_hybrid, vector


def best(text: str, *options: str) -> dict[str, object]:
    code, out, err = call("search", text, "--json", "--top", "1", *options)
    assert code == 0, err
    hit: dict[str, object] = json.loads(out)["hits"][0]
    return hit


def test_add_delete_and_search(root: Path) -> None:
    path = root / "new.jsonl"
    path.write_text('{"_id": "n1", "title": "Cats", "text": "a cat"}\n{"_id": "p3", "text": "text 3, changed"}\n')
    code, out, _ = call("add", str(path))
    told = (
        "added 2 passages, 1 of them in place of others; gnn_encoder now has 21, and other systems are as they were\n"
    )
    assert code == 0 and out == told
    found = best("a cat")
    assert (found["pid"], found["title"], found["text"]) == ("n1", "Cats", "a cat")
    assert best("text 3, changed")["pid"] == "p3" and best("text 3")["text"] != "text 3"
    before = Searcher.open("data/indexes/gnn_encoder").search("text 5", k=21)
    (root / "pids.txt").write_text(" p7\t\r\n\n")
    code, out, _ = call("delete", "n1", "p7", "--file", "pids.txt")
    assert code == 0 and out == "deleted 2 passages; gnn_encoder now has 19, and other systems are as they were\n"
    after = Searcher.open("data/indexes/gnn_encoder").search("text 5", k=50)
    kept = [hit for hit in before if hit.pid not in ("n1", "p7")]
    assert [(hit.pid, hit.score) for hit in after] == [(hit.pid, hit.score) for hit in kept]
    assert contents(SYSTEM) == {**{pid: text for pid, text in BUILT.items() if pid != "p7"}, "p3": "text 3, changed"}
    path.write_text('{"_id": "p7", "text": "back again"}\n')
    assert call("add", str(path))[0] == 0
    assert best("back again")["pid"] == "p7" and len(contents(SYSTEM)) == 20
    os.chdir("/")  # from Python, in another folder
    assert len(Searcher.open(root / "data" / "indexes" / SYSTEM).search("back again", k=50)) == 20


def test_a_grown_table_of_passages_lies_in_small_row_groups(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gnn_encoder.growing.commands.PICKED", 7)
    (root / "new.jsonl").write_text('{"_id": "n1", "text": "a cat"}\n')
    assert call("add", "new.jsonl")[0] == 0
    version = current(SYSTEM)
    assert version is not None and pq.ParquetFile(version.passages).metadata.row_group(0).num_rows == 7


def test_the_same_bytes_and_untouched_artifacts(root: Path) -> None:
    """The same commands give the same files, and nothing of the pipeline changes."""

    def files() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in sorted(Path("data").rglob("*")) if path.is_file()}

    def grow() -> dict[str, bytes]:
        call("add", str(jsonl(root / "a.jsonl", {"n1": "one", "p1": "changed"})))
        call("delete", "p2")
        return {path: value for path, value in files().items() if not path.endswith("lock")}

    before, first = files(), grow()
    assert {path: first[path] for path in before} == before
    assert all(path.startswith("data/versions/gnn_encoder/") for path in first.keys() - before.keys())
    (root / "other").mkdir()
    os.chdir(root / "other")
    make(root / "other", BUILT)
    assert grow() == first


@pytest.mark.parametrize("factory", ["HNSW8", "IVF2,Flat", "SQ8"])
def test_other_types_of_index_are_built_anew_by_their_factory(root: Path, factory: str) -> None:
    make(root, BUILT, factory)
    call("add", str(jsonl(root / "a.jsonl", {"n1": "one"})))
    call("delete", "p3")
    index = PassageIndex.open(current(SYSTEM).index)
    assert type(faiss.downcast_index(index.index)) is type(
        faiss.downcast_index(faiss.index_factory(16, factory, faiss.METRIC_INNER_PRODUCT))
    )
    assert best("one")["pid"] == "n1" and best("text 3")["pid"] != "p3" and best("text 19")["pid"] == "p19"


def test_several_views_a_passage(root: Path) -> None:
    make(root, BUILT, views=3, system="dual_cross")
    assert call("delete", "p3", "--system", "dual_cross")[0] == 0
    assert "p3" not in contents("dual_cross") and len(contents("dual_cross")) == 19
    assert best("text 5!!", "--system", "dual_cross")["pid"] == "p5"


def test_another_build_takes_the_place_of_versions(root: Path) -> None:
    """What is current is never older than what the pipeline built, and the next command removes what is."""
    call("add", str(jsonl(root / "a.jsonl", {"n1": "one"})))
    call("delete", "p5")
    make(root, BUILT)  # the same index: its versions go on to count
    assert len(contents(SYSTEM)) == 20 and "p5" not in contents(SYSTEM)
    make(root, {**BUILT, "p20": "text 20"})
    assert contents(SYSTEM) == {**BUILT, "p20": "text 20"}
    call("delete", "p20")
    assert contents(SYSTEM) == BUILT
    assert {path.name for path in folder_of(SYSTEM).iterdir()} == {"lock", "current.json", "000003"}


def test_an_index_of_other_passages_than_now(root: Path) -> None:
    """The pipeline has prepared other passages and has yet to index them."""
    index = project.index(SYSTEM).rename("index")
    make(root, {**BUILT, "p20": "one more"})
    shutil.rmtree(project.index(SYSTEM))
    index.rename(project.index(SYSTEM))
    code, _, err = call("delete", "p1")
    assert code == 2 and "data/indexes/gnn_encoder: made of other passages than now; build it again" in err


def test_a_version_stays_until_the_next_but_one(root: Path) -> None:
    """So that a search which is just opening it finds all its files."""
    call("delete", "p1")
    opened = current(SYSTEM)
    call("delete", "p2")
    index = PassageIndex.open(opened.index)
    call("delete", "p3")
    assert not opened.index.exists() and index.search(vector("text 2")[None], 1)[0][0, 0] == 1


WRONG = [
    ("add.jsonl", "{", "line 1: '{' is not JSON (Expecting property name"),
    (
        "add.jsonl",
        '{"_id": "a", "text": "b"}\n{"_id": "c", "text": " \\u200b"}',
        "line 2, text: there is none, nor a title",
    ),
    (
        "add.jsonl",
        2 * '{"_id": "a", "text": "b"}\n',
        "line 2, _id: 'a' is also the id in line 1; give each row its own",
    ),
    (
        "add.jsonl",
        '{"_id": "a", "title": ""}\n{"_id": "b", "text": " "}\n{',
        "line 1, text: missing; add it or remove the row",
    ),
    ("add.jsonl", "", "is empty; write one passage a line"),
    ("pids.txt", "p1\n\np 2\n", "line 3, pid: 'p 2' has white space"),
]


@pytest.mark.parametrize(("name", "text", "message"), WRONG)
def test_wrong_rows(name: str, text: str, message: str, root: Path) -> None:
    """Each is told with its file and line, and nothing changes."""
    Path(name).write_text(text)
    code, _, err = call(*(["add", name] if name == "add.jsonl" else ["delete", "--file", name]))
    assert code == 2 and err.startswith(f"error: {name}") and message in err and err.count("\n") == 1
    assert [path.name for path in folder_of(SYSTEM).iterdir()] == ["lock"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["add", "missing.jsonl"], "missing.jsonl: no such file; correct its path"),
        (["delete"], "no passage is named: give ids, or a file with one a line as --file"),
        (["delete", "p1", "x", "y"], "no passage 'x' is in the index of gnn_encoder (and 1 more); nothing is deleted"),
        (["delete", *BUILT], "these are all passages of gnn_encoder; nothing is deleted"),
        (["add", "a", "--system", "dual_cross"], "its passages' vectors are made of generated queries, which new pas"),
        (["add", "a", "--system", "labels_alone"], "its passages' vectors are made of labelled queries, which new pas"),
        (["delete", "p1", "--system", "bm25"], "--system is 'bm25': must be one of untouched, retriever, "),
        (["delete", "p1", "--system", "pair"], "data/indexes/pair/manifest.json: not built yet; `bash scripts/rep"),
    ],
)
def test_mistakes(arguments: list[str], message: str, root: Path) -> None:
    code, _, err = call(*arguments)
    assert code == 2 and message in err and err.startswith("error: ") and err.count("\n") == 1
    assert not (folder_of(SYSTEM) / CURRENT).exists()


def test_a_damaged_version(root: Path) -> None:
    call("delete", "p1")
    (folder_of(SYSTEM) / "000001").rename("elsewhere")
    assert "data/versions/gnn_encoder/000001: no such folder, which data/versions" in call("search", "text 1")[2]
    (folder_of(SYSTEM) / CURRENT).write_text("{")
    code, _, err = call("search", "text 1")
    assert code == 2 and err.count("\n") == 1
    assert "current.json: names no version; remove data/versions/gnn_encoder/current.json to search the index" in err
    (folder_of(SYSTEM) / CURRENT).unlink()
    assert best("text 1")["pid"] == "p1"


def test_hybrid(root: Path) -> None:
    """BM25's index is of the built passages: deleted ones do not come back; added ones come by their vectors."""
    make_hybrid(0.5, 5)
    assert best("text 11", "--hybrid")["pid"] == "p11"
    call("delete", "p11", "p0")
    call("add", str(jsonl(root / "a.jsonl", {"n1": "zebra"})))
    found = json.loads(call("search", "text 11", "--hybrid", "--json", "--top", "20")[1])["hits"]
    assert len(found) >= 5 and "p11" not in [hit["pid"] for hit in found]
    assert best("zebra", "--hybrid")["pid"] == "n1" and best("text 12", "--hybrid")["pid"] == "p12"


def test_a_hybrid_that_asks_the_log(root: Path) -> None:
    """The labels of the log name built passages: deleted ones do not come back."""
    make_hybrid(0.0, 5, log_weight=100.0, log_neighbours=1, log_temperature=1.0, log_unit=1.0)
    asked = Searcher.open(project.index(SYSTEM)).encoder.embed_queries(["zebra"])
    labels = pl.DataFrame({"query": [0, 0], "passage": [12, 13]})
    LabelledQueries.of(labels, asked).save(project.RUNS / "hybrid" / LABELLED)
    assert {best("zebra", "--hybrid")["pid"], best("text 3", "--hybrid")["pid"]} <= {"p12", "p13"}
    call("delete", "p12", "p0")
    assert best("zebra", "--hybrid")["pid"] == "p13"
