"""Which queries are in the graph, and which of them must be out of it while others train."""

from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from gnn_encoder.base.tables import QUERIES, write_table
from gnn_encoder.graph import nodes as module
from gnn_encoder.graph.nodes import NO_NODES, Chosen, Nodes, draw, read_nodes, write_nodes

# Three training queries, then queries generated from passages 7, 4, 7 and 9.
NODES = Nodes(training=3, sources=np.array([7, 4, 7, 9], dtype=np.int32))


def table(path: Path, prefix: str, count: int) -> Path:
    names = [f"{prefix}{i}" for i in range(count)]
    batches = [pa.record_batch([[name], [f"text of {name}"], [[]]], QUERIES) for name in names]
    write_table(path, QUERIES, batches)  # a row group each: rows are taken across batches
    return path


def test_masked_by_hand() -> None:
    assert len(NODES) == 7
    assert NODES.masked(np.array([1]), np.array([7, 2])).tolist() == [1, 3, 5]
    assert NODES.masked(np.array([0, 2]), np.array([4, 9, 9])).tolist() == [0, 2, 4, 6]
    assert NODES.masked(np.array([1]), np.array([5])).tolist() == [1]
    assert NODES.masked(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)).tolist() == []


def test_an_unlabelled_query_is_never_masked_and_has_no_passage() -> None:
    """Not even for a passage that it is really labelled with: training does not know that label."""
    nodes = Nodes(training=3, sources=np.array([-1, -1, 7, 0], dtype=np.int32))
    for queries in range(3):
        for relevant in ([0, 7, 9], [], list(range(10))):
            masked = nodes.masked(np.array([queries]), np.array(relevant, dtype=np.int64))
            assert not {3, 4} & set(masked.tolist())
    pairs = pl.DataFrame({"query": [0, 3], "passage": [5, 7]}, schema={"query": pl.Int32, "passage": pl.Int32})
    assert nodes.labelled_pairs(pairs).rows() == [(0, 5), (5, 7), (6, 0)], "row 3 is a node, but no training query"


def test_training_queries_that_are_no_nodes_are_not_masked_but_their_passages_queries_are() -> None:
    generated = Nodes(training=0, sources=np.array([7, 4], dtype=np.int32))
    assert generated.masked(np.array([0, 1]), np.array([4])).tolist() == [1]
    assert NO_NODES.masked(np.array([0, 1]), np.array([4])).tolist() == []


def test_labelled_pairs_by_hand() -> None:
    pairs = pl.DataFrame({"query": [0, 2], "passage": [5, 7]}, schema={"query": pl.Int32, "passage": pl.Int32})
    assert NODES.labelled_pairs(pairs).rows() == [(0, 5), (2, 7), (3, 7), (4, 4), (5, 7), (6, 9)]
    generated = Nodes(training=0, sources=np.array([7], dtype=np.int32))
    assert generated.labelled_pairs(pairs).rows() == [(0, 7)]


@pytest.mark.parametrize(
    ("kind", "texts", "sources"),
    [
        ("training", ["t0", "t1"], []),
        ("generated", ["g1", "g2", "g5"], [0, 1, 2]),
        ("both", ["t0", "t1", "g1", "g2", "g5"], [0, 1, 2]),
    ],
)
def test_nodes_are_written_in_order(tmp_path: Path, kind: str, texts: list[str], sources: list[int]) -> None:
    training = table(tmp_path / "train.parquet", "t", 2) if kind != "generated" else None
    generated = (
        Chosen(table(tmp_path / "generated.parquet", "g", 6), np.array([1, 2, 5])) if kind != "training" else None
    )
    first = 2 if training else 0
    for some, own in ((np.array([], dtype=np.int64), []), (np.array([0, 3]), ["u0", "u3"])):
        unlabelled = Chosen(table(tmp_path / "unlabelled.parquet", "u", 4), some)
        write_nodes(tmp_path, training=training, unlabelled=unlabelled, generated=generated, views=2)
        assert pl.read_parquet(tmp_path / module.NODES)["qid"].to_list() == [*texts[:first], *own, *texts[first:]]
        nodes = read_nodes(tmp_path)
        assert (nodes.training, nodes.sources.tolist()) == (first, [-1] * len(own) + sources)
        assert nodes.asked == first + len(own) and len(nodes) == len(texts) + len(own)


def test_draw() -> None:
    assert draw(4, None, 0).tolist() == draw(4, 9, 0).tolist() == [0, 1, 2, 3]
    drawn = draw(100, 10, 5)
    assert len(set(drawn.tolist())) == 10 and (np.diff(drawn) > 0).all() and drawn.max() < 100
    assert drawn.tolist() == draw(100, 10, 5).tolist() != draw(100, 10, 6).tolist()
