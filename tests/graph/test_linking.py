"""Which queries would retrieve new passages: against a loop over all pairs."""

import numpy as np
import pytest

from gnn_encoder.graph.linking import Reach, link, nearest
from gnn_encoder.graph.structure import Graph

N, K, B = 20, 3, 4
DRAW = np.random.default_rng(0)
# Whole numbers, so that many scores are equal, to each other and to what they must exceed.
QUERIES, PASSAGES = (DRAW.integers(-2, 3, size=(rows, 3)).astype(np.float32) for rows in (N, B))
SCORES = -np.sort(-DRAW.integers(-4, 5, size=(N, K))).astype(np.float32)
GRAPH = Graph(passages=np.tile(np.arange(K), (N, 1)), score=SCORES, n_passages=K)
FIRST = np.arange(K) < np.arange(N)[:, None] % (K + 1)  # some queries have no labelled passage, some no other one
LABELLED, BEFORE = ([(q, p) for q in range(N) for p in range(B) if (q + p) % by == 0] for by in (3, 2))


@pytest.mark.parametrize("labels_first", [True, False])
def test_against_a_loop(monkeypatch: pytest.MonkeyPatch, labels_first: bool) -> None:
    monkeypatch.setattr("gnn_encoder.graph.linking.SCORES", 13)  # three queries at a time
    monkeypatch.setattr("gnn_encoder.graph.linking.ROUNDING", 0.5)
    before = [(q, p) for q, p in BEFORE if not FIRST[q, -1] or (q, p) in LABELLED]
    found: list[tuple[int, int, float]] = []
    for p in range(B):
        asking = []
        for q in range(N):
            least, full = float(SCORES[q, -1]), bool(FIRST[q, -1])
            if labels_first and full != ((q, p) in LABELLED):
                least = np.inf if full else -np.inf
            if (q, p) in before:
                least -= 0.5 * abs(least)
            asking += [(-score, q) for score in [float(QUERIES[q] @ PASSAGES[p])] if score > least]
        found += [(q, p, -score) for score, q in sorted(asking)]
    reach = Reach.of(GRAPH, FIRST.reshape(-1) if labels_first else None)
    edges = link(QUERIES, reach, PASSAGES, labelled=np.array(LABELLED), before=np.array(before))
    assert edges.rows() == found and nearest(edges, None).equals(edges)
    assert nearest(edges, 2).rows() == [row for p in range(B) for row in [edge for edge in found if edge[1] == p][:2]]
    assert link(QUERIES, reach, PASSAGES[:0]).is_empty()
