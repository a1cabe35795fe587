"""Vectors of added passages and of logged queries against the build's own, and against Eq. 3-10 written out."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from gnn_encoder.core import project
from gnn_encoder.core.params import Params
from gnn_encoder.core.records import QRELS, QUERIES
from gnn_encoder.core.storage.arrays import open_matrix
from gnn_encoder.core.storage.tables import write_table
from gnn_encoder.graph.artifacts import GraphArtifacts
from gnn_encoder.growing import commands
from gnn_encoder.growing.overlay import Overlay, read_manifest
from gnn_encoder.growing.search import GrownIndex
from gnn_encoder.index.search import PassageIndex

from .conftest import KINDS
from .projects import BASE, SYSTEM, build_graph

Copies = Callable[[str], Params]
NEW = [
    {"_id": "n1", "title": "Bread", "text": "A baker proofs dough in a warm oven before the loaf is baked."},
    {"_id": "n2", "text": "Comets are balls of ice and dust that grow a tail near the sun."},
    {"_id": "n3", "title": "", "text": "Octopuses change the colour of their skin to hide."},
]


def write(path: Path, rows: list[dict[str, str]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def corpus_rows(pids: list[str]) -> list[dict[str, str]]:
    rows = pl.read_parquet(project.PASSAGES).filter(pl.col("pid").is_in(pids))
    return rows.rename({"pid": "_id"}).to_dicts()


def overlay() -> Overlay:
    manifest = read_manifest(SYSTEM)
    assert manifest is not None
    return Overlay(manifest)


def live_vectors(state: Overlay) -> dict[str, np.ndarray]:
    """What is searched, by pid."""
    found = dict(zip(pl.read_parquet(project.PASSAGES)["pid"], open_matrix(project.embeddings(SYSTEM)), strict=True))
    found = {pid: vector for row, (pid, vector) in enumerate(found.items()) if row not in state.dead}
    for segment in state.segments:
        if segment.entry.passages:
            for row, pid in enumerate(pl.read_parquet(segment.passages)["pid"]):
                if segment.first_row + row not in state.dead:
                    assert pid not in found
                    found[pid] = segment.vectors[row]
    return found


def built_edges() -> set[tuple[int, str]]:
    pids = pl.read_parquet(project.PASSAGES)["pid"]
    edges = pl.read_parquet(project.graph(SYSTEM) / "edges.parquet")
    return {(query, pids[passage]) for query, passage in edges.select("query", "passage").iter_rows()}


def grown_edges(state: Overlay, number: int = -1) -> pl.DataFrame:
    segment = state.segments[number]
    pids = pl.read_parquet(segment.passages)["pid"]
    edges = pl.read_parquet(segment.edges)
    return edges.with_columns(pid=pids.gather(edges["passage"]))


@pytest.mark.parametrize("kind", KINDS)
def test_passages_that_are_added_again_get_the_vectors_of_the_build(
    kind: str, project_of: Copies, tmp_path: Path
) -> None:
    project_of(kind)
    pids = pl.read_parquet(project.PASSAGES)["pid"].to_list()[::2]
    commands.delete(SYSTEM, pids)
    commands.add(SYSTEM, write(tmp_path / "passages.jsonl", corpus_rows(pids)))
    state = overlay()
    found = live_vectors(state)
    expected = dict(zip(pl.read_parquet(project.PASSAGES)["pid"], open_matrix(project.embeddings(SYSTEM)), strict=True))
    assert found.keys() == expected.keys()
    for pid in pids:
        np.testing.assert_allclose(found[pid], expected[pid], atol=2e-5)
    if KINDS[kind].labelled_edges and KINDS[kind].max_neighbours is None:
        edges = grown_edges(state).filter(pl.col("query") >= 0)
        assert set(edges.select("query", "pid").iter_rows()) == {edge for edge in built_edges() if edge[1] in pids}


@pytest.mark.parametrize("kind", KINDS)
def test_logged_queries_give_what_a_build_with_them_gives(
    kind: str, project_of: Copies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The build has them as further training queries with the same labels; every passage is compared."""
    params = project_of(kind)
    pids = pl.read_parquet(project.PASSAGES)["pid"]
    log = [("How is sourdough bread proofed?", pids[3]), ("What are comets made of?", None), ("why is the sky dark", pids[40])]
    log += [("Why is the sky dark?", pids[7])]  # the same query, with another label
    (tmp_path / "log.tsv").write_text("".join(f"{text}\t{pid}\n" if pid else f"{text}\n" for text, pid in log))
    commands.log(SYSTEM, tmp_path / "log.tsv")
    found = live_vectors(overlay())
    assert 0 < overlay().segments[0].entry.passages < len(pids)
    queries, qrels = project.queries("train"), project.qrels("train")
    texts = [log[0][0], log[1][0], log[2][0]]
    new = pl.DataFrame({"qid": ["l0", "l1", "l2"], "text": texts, "answers": [[], [], []]}, pl.read_parquet(queries).schema)
    labels = {"qid": ["l0", "l2", "l2"], "pid": [pids[3], pids[40], pids[7]], "grade": [1, 1, 1]}
    old_queries, old_qrels = pl.read_parquet(queries), pl.read_parquet(qrels)
    for path in (queries, qrels):
        path.unlink()  # it is a link to the file of all copies
    write_table(queries, QUERIES, [pl.concat([old_queries, new]).to_arrow()])
    write_table(qrels, QRELS, [pl.concat([old_qrels, pl.DataFrame(labels, old_qrels.schema)]).to_arrow()])
    build_graph(params, KINDS[kind])
    expected = dict(zip(pids, open_matrix(project.embeddings(SYSTEM)), strict=True))
    assert found.keys() == expected.keys()
    for pid, vector in expected.items():
        np.testing.assert_allclose(found[pid], vector, atol=2e-5)


def test_passages_and_queries_together(project_of: Copies, tmp_path: Path) -> None:
    """A logged query finds an added passage, and a passage that is added later finds the logged query."""
    project_of("product")
    commands.add(SYSTEM, write(tmp_path / "new.jsonl", NEW))
    (tmp_path / "log.tsv").write_text("Which animals change the colour of their skin?\tn3\nWhat is a comet's tail?\n")
    commands.log(SYSTEM, tmp_path / "log.tsv")
    n = len(pl.read_parquet(GraphArtifacts(name=SYSTEM).queries))
    edges = grown_edges(overlay())
    assert (n, "n3", True) in set(edges.select("query", "pid", "labelled").iter_rows())
    before = edges.filter(pid="n3", query=n)["score"].item()
    changed = NEW[2] | {"text": NEW[2]["text"] + " They do it quickly."}
    commands.add(SYSTEM, write(tmp_path / "changed.jsonl", [changed]))
    edges = grown_edges(overlay())
    assert edges.filter(query=n)["labelled"].to_list() == [True]
    assert edges.filter(query=n)["score"].item() != before


def test_attention_and_gates_are_kept(project_of: Copies, tmp_path: Path) -> None:
    project_of("cross_encoder")
    commands.add(SYSTEM, write(tmp_path / "passages.jsonl", corpus_rows(pl.read_parquet(project.PASSAGES)["pid"].to_list())))
    edges = grown_edges(overlay())
    sums = edges.group_by("passage").agg(pl.col("attention").sum(), pl.col("gate").n_unique())
    np.testing.assert_allclose(sums["attention"], 1, atol=1e-6)
    assert (sums["gate"] == 1).all() and edges["gate"].is_between(0, 1).all()
    assert edges.filter(query=-1)["pid"].to_list() == pl.read_parquet(project.PASSAGES)["pid"].to_list()


def test_a_search_finds_what_was_added(project_of: Copies, tmp_path: Path) -> None:
    project_of("product")
    commands.add(SYSTEM, write(tmp_path / "new.jsonl", NEW))
    grown = GrownIndex.open(PassageIndex.open(project.index(SYSTEM)))
    assert grown is not None
    rows, scores = grown.search(np.array(overlay().segments[0].vectors), 3)
    first = overlay().segments[0].first_row
    assert rows[:, 0].tolist() == [first, first + 1, first + 2]
    np.testing.assert_allclose(scores[:, 0], 1, atol=1e-5)


def test_the_edges_of_a_new_passage_are_the_queries_that_it_beats_others_for(
    project_of: Copies, tmp_path: Path
) -> None:
    project_of("product")
    commands.add(SYSTEM, write(tmp_path / "new.jsonl", NEW))
    state = overlay()
    nodes = state.folder / f"nodes-{state.manifest.index}"
    asked, cached = np.load(nodes / "m_de.npy"), np.array(state.segments[0].matrix("cached.npy"))
    last = pl.read_parquet(project.graph(SYSTEM) / "edges.parquet").group_by("query").agg(pl.col("score").last())
    scores = asked @ cached.T
    beaten = scores > last.sort("query")["score"].to_numpy()[:, None]
    edges = grown_edges(state).filter(pl.col("query") >= 0)
    assert len(edges) > 0
    labelled_last = {query for query, _ in built_edges()} - set(range(len(asked)))
    assert not labelled_last
    found = set(edges.select("query", "passage").iter_rows())
    assert found <= set(zip(*(part.tolist() for part in np.nonzero(beaten)), strict=True))
    assert open_matrix(project.embeddings(BASE)).shape[1] == cached.shape[1]
