"""Which queries would retrieve new passages: against a loop over all pairs."""

import numpy as np
import pytest

from gnn_encoder.gnn.corpus import link, nearest, reach
from gnn_encoder.gnn.graph import Graph

N, K, B = 20, 3, 4
DRAW = np.random.default_rng(0)
# Whole numbers, so that many scores are equal, to each other and to what they must exceed.
QUERIES, PASSAGES = (DRAW.integers(-2, 3, size=(rows, 3)).astype(np.float32) for rows in (N, B))
SCORES = -np.sort(-DRAW.integers(-4, 5, size=(N, K))).astype(np.float32)
GRAPH = Graph(passages=np.tile(np.arange(K), (N, 1)), score=SCORES, n_passages=K)
FIRST = np.arange(K) < np.arange(N)[:, None] % (K + 1)  # some queries have no labelled passage, some no other one


@pytest.mark.parametrize("labels_first", [True, False])
def test_against_a_loop(monkeypatch: pytest.MonkeyPatch, labels_first: bool) -> None:
    monkeypatch.setattr("gnn_encoder.gnn.corpus.SCORES", 13)  # three queries at a time
    found: list[tuple[int, int, float]] = []
    for p in range(B):
        asking = [
            (-float(QUERIES[q] @ PASSAGES[p]), q)
            for q in range(N)
            if QUERIES[q] @ PASSAGES[p] > SCORES[q, -1] and not (labels_first and FIRST[q, -1])
        ]
        found += [(q, p, -score) for score, q in sorted(asking)]
    edges = link(QUERIES, reach(GRAPH, FIRST.reshape(-1) if labels_first else None), PASSAGES)
    assert edges.rows() == found and nearest(edges, None).equals(edges)
    assert nearest(edges, 2).rows() == [row for p in range(B) for row in [edge for edge in found if edge[1] == p][:2]]
    assert link(QUERIES, reach(GRAPH), PASSAGES[:0]).is_empty()
