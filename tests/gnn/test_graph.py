"""The graph by hand and by loops: edges, nodes, labelled passages first, new ones; and as a network reads it."""

from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.tables import CANDIDATES, QUERIES, candidates_table, write_table
from gnn_encoder.gnn.graph import EDGES, Graph, Labels, labelled_first, open_graph, write_nodes
from gnn_encoder.gnn.neighbourhood import Neighbourhood
from gnn_encoder.pipeline import project
from gnn_encoder.train.examples import draw

from ..texts import pairs, write_passages, write_queries

# Edges 0 1 | 2 3 | 4 5. Passage 2 has edges 1 (0.5), 2 (0.9), 5 (0.5); passage 4 has none.
PASSAGES, SCORES = np.array([[0, 2], [2, 1], [3, 2]]), np.array([[0.8, 0.5], [0.9, 0.4], [0.7, 0.5]])


def small() -> Graph:
    return Graph(passages=PASSAGES, score=SCORES, n_passages=5)


def test_a_small_graph() -> None:
    graph = small()
    assert (graph.n, graph.k, graph.m) == (3, 2, 5)
    assert graph.indptr.tolist() == [0, 1, 2, 5, 6, 6]
    assert graph.edges.tolist() == [0, 3, 2, 1, 5, 4]  # passage 2: best score, then the tie by row
    assert (graph.passages.dtype, graph.indptr.dtype, graph.edges.dtype) == (np.int32, np.int64, np.int32)
    rows, target = graph.passage_edges(np.array([2, 4, 0, 2]))
    assert rows.tolist() == [2, 1, 5, 0, 2, 1, 5] and target.tolist() == [0, 0, 0, 2, 3, 3, 3]


@pytest.mark.parametrize(
    ("passages", "scores", "told"),
    [
        ([[0, 5]], [1, 2], "passages are 0 to 5: must be rows of the 5 passages"),
        ([[-1, 2]], [1, 2], "passages are -1 to 2: must be rows of the 5 passages"),
        ([[0, 2]], [1, 2, 3], "all keys need to be the same shape"),
    ],
)
def test_what_is_no_graph(passages: list[list[int]], scores: list[float], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Graph(passages=np.array(passages), score=np.array(scores), n_passages=5)


def test_a_graph_of_other_tables_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = project.GRAPH
    write_table(folder / EDGES, CANDIDATES, [candidates_table(PASSAGES, SCORES.astype(np.float32))])
    for queries, passages, told in ((3, 5, None), (4, 5, "cannot reshape"), (3, 3, "passages are 0 to 3: must be")):
        write_queries(project.NODES, ["text"] * queries)
        write_passages(project.PASSAGES, [""] * passages, ["text"] * passages)
        if told is None:
            assert (open_graph().edges == small().edges).all()
            continue
        with pytest.raises(UserError, match=f"edges.parquet: {told}.*; run build_graph again"):
            open_graph()


def test_edges_of_pairs() -> None:
    found = small().edges_of(pairs((2, 3), (0, 2), (1, 4)))  # the last is no edge
    assert found.tolist() == [False, True, False, False, True, False]
    assert not small().edges_of(pairs()).any()
    graph = Graph.__new__(Graph)  # query * m + passage does not fit 32 bits on MS MARCO
    graph.passages, graph.n, graph.k, graph.m = np.array([[5], [7], [9]], dtype=np.int32), 3, 1, 2**31 - 1
    assert graph.edges_of(pairs((2, 9))).tolist() == [False, False, True]


@pytest.mark.parametrize(("rows", "own"), [([], []), ([0, 3], ["u0", "u3"])])
def test_nodes_are_written_in_order(tmp_path: Path, rows: list[int], own: list[str]) -> None:
    for prefix, count in (("t", 2), ("u", 4)):  # a row group each: rows are taken across batches
        batches = [pa.record_batch([[f"{prefix}{i}"], ["text"], [[]]], QUERIES) for i in range(count)]
        write_table(tmp_path / prefix, QUERIES, batches)
    nodes = np.array(rows, dtype=np.int64)
    write_nodes(tmp_path, training=tmp_path / "t", unlabelled=tmp_path / "u", rows=nodes)
    assert pl.read_parquet(tmp_path / project.NODES.name)["qid"].to_list() == ["t0", "t1", *own]


def test_draw() -> None:
    assert draw(4, None, 0).tolist() == draw(4, 9, 0).tolist() == [0, 1, 2, 3]
    drawn = draw(100, 10, 5)
    assert len(set(drawn.tolist())) == 10 and (np.diff(drawn) > 0).all() and drawn.max() < 100
    assert drawn.tolist() == draw(100, 10, 5).tolist() != draw(100, 10, 6).tolist()


def test_labelled_first_equals_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gnn_encoder.base.matrix.PAIRS_AT_A_TIME", 7)
    draw = np.random.default_rng(3)
    queries, matrix = draw.normal(size=(20, 4)).astype(np.float32), draw.normal(size=(30, 4)).astype(np.float16)
    every = queries @ matrix.astype(np.float32).T
    passages = np.argsort(-every, axis=1)[:, :5]
    pairs = pl.DataFrame({"query": draw.integers(20, size=70), "passage": draw.integers(30, size=70)}).unique()
    found, of = labelled_first(passages, np.take_along_axis(every, passages, 1), pairs, queries, matrix)
    for query in range(20):
        own = sorted(pairs.filter(query=query)["passage"].to_list(), key=lambda p: -every[query, p])
        assert found[query].tolist() == (own + [p for p in passages[query].tolist() if p not in own])[:5]
    np.testing.assert_allclose(of, np.take_along_axis(every, found, 1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("labels_first", [True, False])
def test_new_passages_are_linked_as_by_a_loop(monkeypatch: pytest.MonkeyPatch, labels_first: bool) -> None:
    monkeypatch.setattr("gnn_encoder.gnn.neighbourhood.SCORES", 13)  # three queries at a time
    draw, n, k, b = np.random.default_rng(0), 20, 3, 4
    # Whole numbers, so that many scores are equal, to each other and to what they must exceed.
    queries, passages = (draw.integers(-2, 3, size=(rows, 3)).astype(np.float32) for rows in (n, b))
    scores = -np.sort(-draw.integers(-4, 5, size=(n, k))).astype(np.float32)
    graph = Graph(passages=np.tile(np.arange(k), (n, 1)), score=scores, n_passages=k)
    first = np.arange(k) < np.arange(n)[:, None] % (k + 1)  # some queries have no labelled passage, some no other one
    labels = Labels(pl.DataFrame(np.argwhere(first), ["query", "passage"]), k)
    near, expected = Neighbourhood(graph, passages, None, labels, sums=labels_first), list[tuple[int, int]]()
    for p in range(b):
        reached = [q for q in range(n) if queries[q] @ passages[p] > scores[q, -1]]
        asking = [(-float(queries[q] @ passages[p]), q) for q in reached if not (labels_first and first[q, -1])]
        expected += [(q, p) for _, q in sorted(asking)]
    found = near.around_new(queries, passages)
    assert list(zip(found.queries[found.edge_query], found.edge_passage, strict=True)) == expected
    assert not near.around_new(queries, passages[:0]).edges.size
