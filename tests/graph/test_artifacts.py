"""The graph as it is opened from a project's artifacts: which edges count as labelled, which are left out."""

from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from gnn_encoder.core.records import CANDIDATES, PASSAGES, QRELS, QUERIES, SOURCES
from gnn_encoder.core.storage.arrays import ArrayManifest, ArrayWriter
from gnn_encoder.core.storage.tables import write_table
from gnn_encoder.graph.artifacts import GraphArtifacts, open_neighbourhood
from gnn_encoder.graph.neighbourhood import Neighbourhood
from gnn_encoder.graph.nodes import MADE_FROM, NODES
from gnn_encoder.pipeline import project

from ..project import declare

SOURCE = GraphArtifacts(name="gnn_encoder_generated")
# Nodes: training queries 0 and 1, query 2 without labels, query 3 that was generated from passage 2.
EDGES = [(0, 0), (0, 1), (1, 1), (1, 2), (2, 0), (2, 2), (3, 2), (3, 0)]
JUDGED = [("q0", "p1"), ("q1", "p1")]


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    declare(tmp_path)
    asked = [[f"q{i}" for i in range(4)], ["?"] * 4, [[]] * 4]
    tables = {
        project.PASSAGES: (PASSAGES, [[f"p{i}" for i in range(3)], [""] * 3, ["text"] * 3]),
        project.queries("train"): (QUERIES, [column[:2] for column in asked]),
        project.qrels("train"): (QRELS, [*map(list, zip(*JUDGED, strict=True)), [1, 1]]),
        project.graph(SOURCE.name) / NODES: (QUERIES, asked),
        project.graph(SOURCE.name) / MADE_FROM: (SOURCES, [[-1, 2]]),
        SOURCE.edges: (CANDIDATES, [*map(list, zip(*EDGES, strict=True)), [0, 1] * 4, [0.5] * 8]),
    }
    for path, (schema, columns) in tables.items():
        write_table(path, schema, [pa.table(columns, schema=schema)])
    with ArrayWriter(project.embeddings(SOURCE.base), (3, 2), "float16") as writer:
        writer.write(0, np.eye(3, 2, dtype=np.float16))
        names = {"model_fingerprint": "", "input_fingerprint": "", "fingerprint": ""}
        writer.finish(ArrayManifest(shape=(3, 2), dtype="float16", views=1, **names))
    return tmp_path


def neighbourhood(*, labelled_edges: bool, without: pl.DataFrame | None = None) -> Neighbourhood:
    return open_neighbourhood(
        SOURCE,
        edge_features="none",
        labelled_edges=labelled_edges,
        without=without,
        max_neighbours=None,
        self_loops_only=False,
        typed=True,
    )


def edges_into(near: Neighbourhood) -> list[tuple[int, int]]:
    subgraph = near.around(np.arange(3))
    return sorted(EDGES[edge] for edge in subgraph.edges.tolist())


def test_a_generated_query_labels_nothing(opened: Path) -> None:
    """Where each passage has generated queries, each would be a labelled one, and the type would say nothing."""
    near = neighbourhood(labelled_edges=True)
    subgraph = near.around(np.arange(3))
    types = near._types(subgraph)
    assert types is not None
    told = [EDGES[edge] for edge, kind in zip(subgraph.edges.tolist(), types.tolist(), strict=True) if kind]
    assert sorted(told) == [(0, 1), (1, 1)]
    assert edges_into(near) == sorted(EDGES)


def test_without_labelled_edges_a_generated_query_loses_its_passage_too(opened: Path) -> None:
    left = sorted(set(EDGES) - {(0, 1), (1, 1), (3, 2)})
    assert edges_into(neighbourhood(labelled_edges=False)) == left


def test_further_pairs_are_left_out_with_the_generated_queries_passages(opened: Path) -> None:
    pairs = pl.DataFrame({"query": [1, 2], "passage": [2, 0]}, schema={"query": pl.Int32, "passage": pl.Int32})
    left = sorted(set(EDGES) - {(1, 2), (3, 2)})
    assert edges_into(neighbourhood(labelled_edges=True, without=pairs)) == left
