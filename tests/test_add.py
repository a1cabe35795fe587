"""Passages that are added: their vectors against those of a build that had them, and what a kill leaves."""

import builtins
import io
import json
import os
import shutil
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir
from functools import partial
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import polars as pl
import pytest
import torch

from gnn_encoder import Searcher, add
from gnn_encoder.base.matrix import open_matrix
from gnn_encoder.base.tables import SPLITS
from gnn_encoder.pipeline import project
from gnn_encoder.search.faiss_index import PassageIndex
from gnn_encoder.searcher import current, newest

from . import built
from .project import call, printed
from .small import BUILT, SYSTEM, contents, encode, fake_encoder, jsonl, make, make_hybrid, vector

KINDS = {  # with one layer h'_q does not depend on the passages, so that a build and an added passage must agree
    "labels": ("mgt.edge_features=none", "mgt.labels=true", "mgt.layers=1"),
    "cross_encoder": ("mgt.edge_features=cross_encoder", "mgt.layers=1", "build_graph.k=3"),
    "plain": ("mgt.edge_features=none", "mgt.labels=false", "mgt.layers=1", "build_graph.unlabelled=null"),
}


def vectors(system: str) -> dict[str, np.ndarray]:
    """What is searched, by pid."""
    version = current(system)
    return dict(zip(pl.read_parquet(version.passages)["pid"], open_matrix(version.embeddings), strict=True))


def build_in(folder: Path, kind: str) -> Path:
    """Build a project of some kind in a new folder, always with the same weights."""
    folder.mkdir()
    torch.manual_seed(7)  # by which the GNN's are drawn
    with chdir(folder):
        built.build(folder, *KINDS[kind], joint=kind != "labels")
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_a_passage_that_is_added_is_as_in_a_build_that_has_it(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the unlabelled passage that most queries retrieve; the others keep their vectors."""
    with chdir(build_in(tmp_path / "whole", kind)):
        edges = pl.read_parquet(project.GRAPH / "edges.parquet").group_by("passage").len()
        labelled = pl.concat([pl.read_parquet(project.qrels(split))["pid"] for split in SPLITS]).implode()
        passages = pl.read_parquet(project.PASSAGES).with_row_index("passage").join(edges, on="passage")
        new = passages.filter(~pl.col("pid").is_in(labelled)).sort("len", "pid").row(-1, named=True)
        expected, pid = {system: vectors(system)[new["pid"]] for system in (built.BASE, SYSTEM)}, new["pid"]
    assert new["len"] > 2
    tiny = shutil.copytree(built.ROOT / "tests" / "tiny", tmp_path / "root" / "tests" / "tiny")
    lines = (corpus := tiny / "beir" / "corpus.jsonl").read_text().splitlines(keepends=True)
    corpus.write_text("".join(line for line in lines if json.loads(line)["_id"] != pid))
    monkeypatch.setattr(built, "ROOT", tmp_path / "root")
    with chdir(build_in(tmp_path / "without", kind)):
        Path("new.jsonl").write_text(json.dumps({"_id": pid, "title": new["title"], "text": new["text"]}))
        for system in (built.BASE, SYSTEM):
            before = vectors(system)
            add.add_passages(system, Path("new.jsonl"))
            found = vectors(system)
            assert [*found] == [*before, pid] and all(np.array_equal(found[old], before[old]) for old in before)
            np.testing.assert_allclose(found[pid], expected[system], atol=2e-5)
        settings = project.encoder(built.BASE) / "dual_encoder.json"
        settings.write_text(settings.read_text().replace('"passage_length": ', '"passage_length": 1'))
        jsonl(Path("more.jsonl"), {"n1": "one"})
        for system in (built.BASE, SYSTEM):
            with pytest.raises(ValueError, match="data/embeddings/dual_encoder: another model than the present"):
                add.add_passages(system, Path("more.jsonl"))


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project without models, as the current folder; a passage is the best for its own text."""
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setattr(add, "_open_encoder", lambda system, params: encode)
    fake_encoder(monkeypatch, vector)
    make(Path.cwd(), BUILT)
    return Path.cwd()


def best(text: str, *options: str) -> str:
    (found,) = printed("search", text, "--json", "--top", "1", *options)
    return str(json.loads(found)["hits"][0]["pid"])


@pytest.mark.parametrize("factory", ["Flat", "HNSW8"])
def test_add_and_search(root: Path, factory: str) -> None:
    make(root, BUILT, factory)
    before = {path: path.read_bytes() for path in sorted(Path("data").rglob("*")) if path.is_file()}
    told = "gnn_encoder now has 22 passages, 2 of them new; `rm -r data/versions/gnn_encoder` takes all added ones out"
    assert printed("add", str(jsonl(root / "a.jsonl", {"n1": "a cat", "n2": "a dog"}))) == [told]
    printed("add", str(jsonl(root / "b.jsonl", {"n3": "a fish"})))
    assert [best(text) for text in ("a cat", "a fish", "text 3")] == ["n1", "n3", "p3"]
    assert contents(SYSTEM) == BUILT | {"n1": "a cat", "n2": "a dog", "n3": "a fish"}
    index, made = PassageIndex.open(current(SYSTEM).index).index, faiss.index_factory(16, factory)
    assert type(faiss.downcast_index(index)) is type(faiss.downcast_index(made)) or factory == "Flat"
    assert before == {path: path.read_bytes() for path in before}, "what the pipeline built stays"
    opened = Searcher.open(project.index(SYSTEM))
    printed("add", str(jsonl(root / "c.jsonl", {"n4": "a bird"})))
    assert opened.search("a fish", 1)[0].pid == "n3" and best("a bird") == "n4"
    make_hybrid(0.5, 5)  # BM25's index is of the built passages: added ones come by their vectors
    assert [best(text, "--hybrid") for text in ("a bird", "text 12")] == ["n4", "p12"]
    os.chdir("/")  # from Python, in another folder
    assert len(Searcher.open(root / project.index(SYSTEM)).search("a bird", k=50)) == 24


def test_another_build_takes_the_place_of_versions(root: Path) -> None:
    printed("add", str(jsonl(root / "a.jsonl", {"n1": "one"})))
    make(root, BUILT)  # the same index: its version goes on to count
    assert "n1" in contents(SYSTEM)
    make(root, {**BUILT, "p20": "text 20"})
    assert contents(SYSTEM) == {**BUILT, "p20": "text 20"}
    printed("add", str(jsonl(root / "a.jsonl", {"n2": "two"})))
    assert contents(SYSTEM) == {**BUILT, "p20": "text 20", "n2": "two"}
    assert len([*newest(SYSTEM).parent.iterdir()]) == 3


ONE = '{"_id": "a", "text": "b"}\n'


@pytest.mark.parametrize(
    ("system", "text", "message"),
    [
        (SYSTEM, "{", "add.jsonl, line 1: '{' is not JSON (Expecting property name"),
        (SYSTEM, ONE + '{"_id": "c", "text": " \\u200b"}', "add.jsonl, line 2, text: there is none, nor a title"),
        (SYSTEM, 2 * ONE, "add.jsonl, line 2, _id: 'a' is also the id in line 1; give each row its own"),
        (SYSTEM, '{"_id": "p3", "text": "b"}\n', "add.jsonl: 'p3' is in the index already"),
        (SYSTEM, "", "add.jsonl: is empty; write one passage a line"),
        (SYSTEM, None, "add.jsonl: no such file; correct its path"),
        ("dual_cross", ONE, "--system is 'dual_cross': its vectors are not made of a passage's text alone; put the"),
        ("bm25", ONE, "--system is 'bm25': "),
        ("pair", ONE, "data/indexes/pair/manifest.json: not built yet; `bash scripts/rep"),
    ],
)
def test_mistakes_are_told_in_one_line_and_change_nothing(
    root: Path, system: str, text: str | None, message: str
) -> None:
    if text is not None:
        Path("add.jsonl").write_text(text)
    code, _, err = call("add", "add.jsonl", "--system", system)
    assert code == 2 and err.startswith(f"error: {message}") and err.count("\n") == 1
    assert contents(SYSTEM) == BUILT


CHANGING = ((builtins, "open"), (io, "open"), (os, "mkdir"), (os, "replace"), (os, "rename"), (os, "unlink"))
CHANGING += ((os, "symlink"), (shutil, "rmtree"))


def test_a_kill_leaves_the_old_version_or_the_new_one(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it would leave is copied before each change of the versions on the disk."""
    for number in range(2):
        add.add_passages(SYSTEM, jsonl(Path("first.jsonl"), {f"first-{number}": f"first {number}"}))
    before, after, copies = contents(SYSTEM), contents(SYSTEM) | {"n1": "one"}, list[Path]()
    jsonl(Path("add.jsonl"), {"n1": "one"})

    def watched(function: Any, *arguments: Any, **named: Any) -> Any:
        if "data/versions" in f"{arguments[0]} {arguments[1:2]}":
            copies.append(root.with_name(f"killed-{len(copies)}"))
            subprocess.run(["cp", "--archive", root, copies[-1]], check=True)
        return function(*arguments, **named)

    with monkeypatch.context() as patch:
        for module, name in CHANGING:
            patch.setattr(module, name, partial(watched, getattr(module, name)))
        add.add_passages(SYSTEM, Path("add.jsonl"))
    assert contents(SYSTEM) == after and len(copies) > 10
    for copy in {*copies[::3], *copies[-4:]}:
        monkeypatch.chdir(copy)
        found = contents(SYSTEM)
        assert found in (before, after)
        add.add_passages(SYSTEM, jsonl(Path("last.jsonl"), {"last": "last"}))
        assert contents(SYSTEM) == found | {"last": "last"} and len([*newest(SYSTEM).parent.iterdir()]) == 4


def test_a_second_command_waits_for_the_first(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began, go_on, encode = threading.Event(), threading.Event(), add._open_encoder

    def slow(*arguments: Any) -> add.Encode:
        began.set()
        assert go_on.wait(30)
        return encode(*arguments)

    monkeypatch.setattr(add, "_open_encoder", slow)
    with ThreadPoolExecutor(2) as pool:
        adding = [pool.submit(add.add_passages, SYSTEM, jsonl(Path(f"{pid}.jsonl"), {pid: pid})) for pid in "ab"]
        assert began.wait(30)
        assert contents(SYSTEM) == BUILT  # a search goes on meanwhile
        go_on.set()
    assert len({one.result() for one in adding}) == 2 and contents(SYSTEM) == BUILT | {"a": "a", "b": "b"}
