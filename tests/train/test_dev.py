"""The dev sample, and the scores by it of an encoder that trains: by hand, and against one text at a time."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from gnn_encoder.base.matrix import Rows
from gnn_encoder.text import cross_encoder as encoded_pairs
from gnn_encoder.text.batches import Inputs, single_batch
from gnn_encoder.train import dev
from gnn_encoder.train.dev import DevSample, reciprocal_ranks
from gnn_encoder.train.dual_encoder import Texts

from ..encoders import cross_encoder
from ..texts import PAIR, pairs
from .conftest import tiny_encoder

PAIRS = pairs((1, 30), (1, 5), (4, 7), (6, 5), (9, 2))
RETRIEVED = pairs((1, 5), (1, 8), (1, 8), (6, 40), (4, 11))


def test_pool_holds_what_was_retrieved_and_every_positive_and_no_query_ranks_itself() -> None:
    own = pairs((1, 8), (2, 5), (6, 41))
    sample = dev.dev_sample(np.array([1, 6]), PAIRS, np.array([[8, 5], [8, 40]]), own)
    assert sample.queries.tolist() == [1, 6] and sample.pool.tolist() == [5, 8, 30, 40]
    assert sample.relevant.tolist() == [[True, False, True, False], [True, False, False, False]]
    assert sample.own is not None and np.argwhere(sample.own).tolist() == [[0, 1]]
    scores = torch.tensor([[2.0, 9.0, 1.0, 0.0], [2.0, 9.0, 1.0, 0.0]])  # of 5, 8, 30 and 40
    assert reciprocal_ranks(scores, torch.eye(4), sample.relevant, own=sample.own).tolist() == [1.0, 0.5]
    assert dev.dev_sample(np.array([1, 6]), PAIRS, np.array([[8, 5]]), own.clear()).own is None
    found = dev.retrieved_pairs(np.array([4, 1]), np.array([[8, 5], [0, 40]]))
    assert found.rows() == [(4, 8), (4, 5), (1, 0), (1, 40)] and found.schema == PAIR


def test_sample_is_of_judged_queries_and_fixed_by_the_seed() -> None:
    assert dev.sample_queries(PAIRS, 99, 0).tolist() == [1, 4, 6, 9]
    chosen = {tuple(dev.sample_queries(PAIRS, 2, seed).tolist()) for seed in range(50)}
    assert len(chosen) == 6 and all(a < b for a, b in chosen)
    assert dev.sample_queries(PAIRS, 2, 7).tolist() == dev.sample_queries(PAIRS, 2, 7).tolist()


@pytest.mark.parametrize(("small", "pool"), [(40, [5, 8, 30, 40]), (41, list(range(41)))])
def test_the_sample_of_a_table(small: int, pool: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    table = dev.candidates_of(np.array([1, 6]), PAIRS, RETRIEVED)
    assert table.rows() == [(1, 5, True), (1, 8, False), (1, 30, True), (6, 5, True), (6, 40, False)]
    monkeypatch.setattr(dev, "WHOLE", small)
    sample = dev.pooled_sample(table, 41)
    assert sample.queries.tolist() == [1, 6] and sample.pool.tolist() == pool
    found = [sample.pool[mask].tolist() for mask in sample.relevant]
    assert found == [[5, 30], [5]], "of its own positives alone"


# --- scores

RELEVANT = np.array([[1, 0, 0, 0, 0], [0, 1, 0, 1, 0], [0, 0, 0, 0, 1]], dtype=bool)
SAMPLE = DevSample(queries=np.array([1, 4, 6]), pool=np.array([0, 2, 3, 7, 11]), relevant=RELEVANT)
RERANKED = [(1, 0, True), (1, 4, False), (1, 9, False), (4, 2, False), (4, 5, True), (4, 7, True), (6, 3, False)]


@pytest.mark.parametrize("at_a_time", [3, 512])
def test_reciprocal_ranks_by_hand(monkeypatch: pytest.MonkeyPatch, at_a_time: int) -> None:
    """The scores of each query fall from passage to passage; the passages are unit vectors."""
    monkeypatch.setattr(dev, "QUERIES_AT_A_TIME", at_a_time)
    relevant = np.zeros((6, 12), dtype=bool)
    relevant[[0, 1, 2, 2, 3, 4], [0, 2, 1, 2, 9, 10]] = True
    scores = torch.arange(12.0, 0, -1).repeat(6, 1)
    assert reciprocal_ranks(scores, torch.eye(12), relevant).tolist() == [1, 1 / 3, 1 / 2, 1 / 10, 0, 0]


def test_reranked_by_hand() -> None:
    """Of equal scores the earlier row comes first; the relevant candidate of query 6 has rank 11."""
    rows = [(1, False, 0.5), (1, True, 0.9), (1, True, 0.1), (4, True, 0.2), (4, False, 0.2), (4, False, 0.3)]
    rows += [(6, rank == 11, 1 / rank) for rank in range(1, 12)]
    scored = pl.DataFrame(rows, schema=["query", "relevant", "score"], orient="row")
    assert dev.reranked_reciprocal_rank(scored) == pytest.approx((1 + 1 / 2 + 0) / 3)


def reciprocal_rank(scores: np.ndarray, relevant: np.ndarray) -> float:
    """1 over the rank of the best relevant one, by counting those above it."""
    return 1.0 / (1 + int((scores > scores[relevant].max()).sum()))


@pytest.mark.parametrize(("views", "window"), [(3, 2), (3, 100), (1, 2)])
def test_retrieval_by_views(
    texts: Texts, tiny_model: Path, monkeypatch: pytest.MonkeyPatch, views: int, window: int
) -> None:
    """View r of a passage is query (r + passage) % 8 read together with it."""
    monkeypatch.setattr(dev, "WINDOW", window)
    encoder = tiny_encoder(tiny_model, dropout=0.5).train()
    tokens, template = (texts.query_tokens, texts.passage_tokens), encoder.template

    def rows_of(row: Rows) -> tuple[Rows, Rows]:
        return (row % views + row // views) % 8, row // views

    inputs = Inputs(*tokens, 12 * views, rows_of, template, 20, views)
    found = dev.retrieval_score(encoder, SAMPLE, tokens[0], inputs, 64)
    assert encoder.training, "and goes on training"
    encoder.eval()
    scores = np.zeros((3, 5, views))
    with torch.no_grad():
        queries = encoder.encode_queries(single_batch(tokens[0], SAMPLE.queries, template, 10))
        for at, passage in enumerate(SAMPLE.pool):
            for view in range(views):
                rows = tokens[0], np.array([(view + passage) % 8]), tokens[1], np.array([passage])
                scores[:, at, view] = queries @ encoder.encode_passages(Inputs.pairs(*rows, template, 20).batch())[0]
    expected = [reciprocal_rank(one, mask) for one, mask in zip(scores.max(axis=2), RELEVANT, strict=True)]
    assert found == pytest.approx(np.mean(expected)) and 0 < found < 1


@pytest.mark.parametrize("window", [3, 100])
def test_reranking(texts: Texts, tiny_model: Path, monkeypatch: pytest.MonkeyPatch, window: int) -> None:
    monkeypatch.setattr(encoded_pairs, "WINDOW", window)
    model = cross_encoder(tiny_model, seed=4, dropout=0.5).train()
    candidates = pl.DataFrame(RERANKED, schema=PAIR | {"relevant": pl.Boolean}, orient="row")
    query, passage = (candidates[name].to_numpy() for name in ("query", "passage"))
    pairs = Inputs.pairs(texts.query_tokens, query, texts.passage_tokens, passage, model.template, 20)
    found = dev.reranking_score(model, candidates, pairs, 64)
    assert model.training
    model.eval()
    with torch.no_grad():
        logits = np.array([model.logits(pairs.batch(np.array([row]))).item() for row in range(7)])
    relevant = np.array([one for *_, one in RERANKED])
    # Query 6 has no relevant candidate and counts as 0.
    expected = sum(reciprocal_rank(logits[own], relevant[own]) for own in (slice(0, 3), slice(3, 6))) / 3
    assert found == pytest.approx(expected) and 0 < found < 1
