"""The dev sample of both phases: whose passages are ranked, and what M_de found is relevant if it holds an answer."""

import numpy as np
import polars as pl
import pytest

from gnn_encoder.base.matrix import Rows
from gnn_encoder.gnn.train import draw_dev
from gnn_encoder.train.dev import DevSample

from ..texts import pairs

# M_de's embeddings of six passages and of the queries 0 and 2: 0 finds passages 3 and 1, 2 finds passages 2 and 4.
CACHED = np.array([[0, 0], [2, 0], [0, 3], [3, 0], [0, 2], [0, 0]], dtype=np.float16)
ASKED = np.array([[1, 0], [0, 0], [0, 1]], dtype=np.float32)
PAIRS = pairs((0, 0), (2, 5))


def sample(holding: list[tuple[int, int]] | None, whole: int = 5, size: int = 9) -> DevSample:
    """`holding`: the pairs that hold an answer; None: qrels judge."""

    def answered(pairs: pl.DataFrame) -> pl.DataFrame:
        return pairs.filter([pair in (holding or []) for pair in pairs.rows()])

    def embed(rows: Rows) -> np.ndarray:
        return ASKED[rows]

    hits = None if holding is None else answered
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gnn_encoder.gnn.train.POOL_DEPTH", 2)
        return draw_dev(PAIRS, embed, CACHED, size=size, whole=whole, seed=0, answered=hits)


def test_which_passages_are_ranked_and_which_are_relevant() -> None:
    """Query 0: passage 5 holds an answer too, but was found for another query."""
    for holding, whole, expected in (
        ([(0, 3), (0, 5), (2, 2)], 5, {0: [0, 3], 2: [2, 5]}),
        ([(2, 2)], 6, {0: [0], 2: [2, 5]}),  # a small corpus is ranked whole
        (None, 6, {0: [0], 2: [5]}),
        (None, 5, {0: [0], 2: [5]}),
    ):
        found = sample(holding, whole)
        assert found.pool.tolist() == [0, 1, 2, 3, 4, 5]
        by_query = zip(found.queries.tolist(), found.relevant, strict=True)
        assert {row: found.pool[mask].tolist() for row, mask in by_query} == expected
    one = sample(None, size=1)
    assert len(one.queries) == 1 and one.pool.tolist() in ([0, 1, 3], [2, 4, 5])
