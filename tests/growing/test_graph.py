"""Vectors of added passages and of logged queries against the build's own, and against Eq. 3-10 written out."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from safetensors.torch import load_file

from gnn_encoder.core.judgements import relevant_pairs
from gnn_encoder.core.records import QRELS, QUERIES
from gnn_encoder.core.storage.arrays import open_matrix
from gnn_encoder.core.storage.tables import write_table
from gnn_encoder.graph.artifacts import GraphArtifacts
from gnn_encoder.growing import commands
from gnn_encoder.growing.encoding import TextEncoder
from gnn_encoder.growing.overlay import Overlay, read_manifest
from gnn_encoder.growing.search import GrownIndex
from gnn_encoder.index.search import PassageIndex
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params, load_params

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
    log = [
        ("How is sourdough bread proofed?", pids[3]),
        ("What are comets made of?", None),
        ("why is the sky dark", pids[40]),
    ]
    log += [("Why is the sky dark?", pids[7])]  # the same query, with another label
    (tmp_path / "log.tsv").write_text("".join(f"{text}\t{pid}\n" if pid else f"{text}\n" for text, pid in log))
    commands.log(SYSTEM, tmp_path / "log.tsv")
    found = live_vectors(overlay())
    assert 0 < overlay().segments[0].entry.passages < len(pids)
    queries, qrels = project.queries("train"), project.qrels("train")
    texts = [log[0][0], log[1][0], log[2][0]]
    new = pl.DataFrame(
        {"qid": ["l0", "l1", "l2"], "text": texts, "answers": [[], [], []]}, pl.read_parquet(queries).schema
    )
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
    pids = pl.read_parquet(project.PASSAGES)["pid"].to_list()
    commands.add(SYSTEM, write(tmp_path / "passages.jsonl", corpus_rows(pids)))
    edges = grown_edges(overlay())
    sums = edges.group_by("passage").agg(pl.col("attention").sum(), pl.col("gate").n_unique())
    np.testing.assert_allclose(sums["attention"], 1, atol=1e-6)
    assert (sums["gate"] == 1).all() and edges["gate"].is_between(0, 1).all()
    assert edges.filter(query=-1)["pid"].to_list() == pids


def test_a_search_finds_what_was_added(project_of: Copies, tmp_path: Path) -> None:
    project_of("product")
    commands.add(SYSTEM, write(tmp_path / "new.jsonl", NEW))
    grown = GrownIndex.open(PassageIndex.open(project.index(SYSTEM)))
    assert grown is not None
    rows, scores = grown.search(np.array(overlay().segments[0].vectors), 3)
    first = overlay().segments[0].first_row
    assert rows[:, 0].tolist() == [first, first + 1, first + 2]
    np.testing.assert_allclose(scores[:, 0], 1, atol=1e-5)


def test_the_edges_of_a_new_passage_are_the_queries_whose_last_passage_it_beats(
    project_of: Copies, tmp_path: Path
) -> None:
    """By M_de, and unless the query is labelled with all its passages: these keep their places."""
    project_of("product")
    commands.add(SYSTEM, write(tmp_path / "new.jsonl", NEW))
    segment = overlay().segments[0]
    encoder = TextEncoder(project.encoder(BASE), load_params())
    asked = encoder.queries(pl.read_parquet(project.queries("train"))["text"].to_list())
    h_p = encoder.passages([row.get("title", "") for row in NEW], [row["text"] for row in NEW])
    np.testing.assert_allclose(segment.matrix("cached.npy"), h_p, atol=1e-6)
    last = pl.read_parquet(project.graph(SYSTEM) / "edges.parquet").group_by("query", maintain_order=True).last()
    pairs = relevant_pairs(project.queries("train"), project.qrels("train"), project.PASSAGES)
    closed = last.join(pairs, on=["query", "passage"], how="semi")["query"].to_list()
    expected = {
        (query, passage)
        for query, needed in enumerate(last["score"])
        for passage in range(len(NEW))
        if asked[query] @ h_p[passage] > needed and query not in closed
    }
    found = grown_edges(overlay()).filter(pl.col("query") >= 0)
    assert set(found.select("query", "passage").iter_rows()) == expected and expected


def test_the_vectors_of_new_passages_are_eq_8_to_10(project_of: Copies, tmp_path: Path) -> None:
    """Written out passage by passage and head by head; edge features are products, labels have weights of their own."""
    project_of("product")
    commands.add(SYSTEM, write(tmp_path / "new.jsonl", NEW))
    segment, nodes = overlay().segments[0], overlay().folder / f"nodes-{overlay().manifest.index}"
    h_q, h_q_prime = np.load(nodes / "h_q.npy"), np.load(nodes / "h_q_prime.npy")
    w = {
        name: value.numpy().astype(np.float64)
        for name, value in load_file(project.gnn(SYSTEM) / "gnn.safetensors").items()
    }
    attention = {name.rpartition(".")[2]: value for name, value in w.items() if name.startswith("passage_attention.")}
    a, heads = attention["a"], len(attention["a"])
    edges = pl.read_parquet(segment.edges).filter(pl.col("query") >= 0)
    for row, h_p in enumerate(segment.matrix("cached.npy").astype(np.float64)):
        queries = edges.filter(passage=row)["query"].to_numpy()
        sources = np.vstack([h_q_prime[queries], h_p])
        features = np.vstack([h_q[queries] * h_p, h_p * h_p])
        gathered = []
        for head in range(heads):
            part = slice(head * len(h_p) // heads, (head + 1) * len(h_p) // heads)
            e = a[head, 0] @ (attention["W_t"] @ h_p)[part] + sources @ attention["W_s"][part].T @ a[head, 1]
            e = e + features @ attention["W_e"][part].T @ a[head, 2]  # Eq. 3; none of the edges is labelled
            e = np.exp(np.where(e > 0, e, 0.2 * e))
            gathered.append((e / e.sum()) @ sources @ attention["W_s"][part].T)  # Eq. 4, 5
        h_tilde = np.concatenate(gathered)
        gate = 1 / (1 + np.exp(-(w["gate.weight"] @ np.concatenate([h_tilde, h_p]) + w["gate.bias"])))  # Eq. 9
        informed = gate * h_tilde + h_p  # Eq. 10
        np.testing.assert_allclose(segment.vectors[row], informed / np.linalg.norm(informed), atol=1e-5)
