"""The teacher's soft targets: which passages are drawn and how they weigh, against plain loops."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from torch import Tensor

from gnn_encoder.base.tables import TARGETS, write_table
from gnn_encoder.training.contrastive import batch_loss
from gnn_encoder.training.examples import Examples, Targets, TrainingBatch, draw_batch, stream

LISTS = {0: {3: 1.0, 5: -2.0, 8: 0.5, 9: 3.0}, 2: {1: 0.0, 7: 0.0}, 5: {4: 20.0}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    rows = [(query, passage, logit) for query, scored in LISTS.items() for passage, logit in scored.items()]
    schema = {"query": pl.Int32, "passage": pl.Int32, "logit": pl.Float32}
    write_table(tmp_path / "targets.parquet", TARGETS, [pl.DataFrame(rows, schema=schema, orient="row").to_arrow()])
    return tmp_path / "targets.parquet"


def test_lists_are_those_of_the_queries(path: Path) -> None:
    found = Targets.read(path, np.array([0, 1, 5]))
    assert found.offsets.tolist() == [0, 4, 4, 5]
    assert found.passages.tolist() == [3, 5, 8, 9, 4]
    assert found.logits.tolist() == [1.0, -2.0, 0.5, 3.0, 20.0]


@pytest.mark.parametrize("count", [1, 2, 3, 6])
def test_drawn_passages_and_their_weights(path: Path, count: int) -> None:
    queries = [0, 2, 5]
    targets, positives = Targets.read(path, np.array(queries)), np.array([8, 1, 4])
    seen = set[int]()
    for seed in range(200):
        generator = np.random.default_rng(seed)
        drawn, weights = targets.draw(np.arange(3), positives, count, 1000, generator)
        assert drawn.shape == (3, count) and weights.shape == (3, 1 + count)
        np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-6)
        for query, positive, others, weight in zip(queries, positives.tolist(), drawn.tolist(), weights, strict=True):
            scored = LISTS[query]
            inside = [passage for passage, w in zip(others, weight[1:], strict=True) if w > 0]
            assert len(inside) == len(set(inside)) == min(count, len(scored) - 1)
            assert positive not in inside and set(inside) <= set(scored)
            total = sum(np.exp(scored[passage]) for passage in [positive, *inside])
            expected = {passage: np.exp(scored[passage]) / total for passage in [positive, *inside]}
            assert weight[0] == pytest.approx(expected[positive], rel=1e-5)
            assert [w for w in weight[1:] if w > 0] == pytest.approx([expected[p] for p in inside], rel=1e-5)
        seen |= set(drawn[0][weights[0, 1:] > 0].tolist())
    assert seen == {3, 5, 9}


def test_a_positive_that_was_not_scored_has_all_weight(path: Path) -> None:
    targets = Targets.read(path, np.array([0, 1]))
    drawn, weights = targets.draw(np.arange(2), np.array([77, 6]), 2, 1000, np.random.default_rng(0))
    assert weights.tolist() == [[1, 0, 0], [1, 0, 0]] and drawn.shape == (2, 2)


def oracle(
    queries: Tensor, passages: Tensor, batch: TrainingBatch, known: set[tuple[int, int]], scale: float
) -> Tensor:
    """(1 - lambda) Eq. 2 on the other queries' passages + lambda KL(t || softmax of own scores), one at a time."""
    size, each = len(batch.queries), len(batch.passages) // len(batch.queries)
    losses = []
    for i, query in enumerate(batch.queries.tolist()):
        own = [i, *(size + i * (each - 1) + j for j in range(each - 1))]
        scores = [
            scale * sum(queries[i, c] * passages[j, c] for c in range(queries.shape[1])) for j in range(size * each)
        ]
        others = [j for j in range(size * each) if j not in own and (query, int(batch.passages[j])) not in known]
        labelled = -torch.log(torch.exp(scores[i]) / sum(torch.exp(scores[j]) for j in [i, *others]))
        total = sum(torch.exp(scores[j]) for j in own)
        taught = -sum(
            float(t) * torch.log(torch.exp(scores[j]) / total) for j, t in zip(own, batch.targets[i], strict=True)
        )
        losses.append((1 - batch.teacher_weight) * labelled + batch.teacher_weight * taught)
    return sum(losses) / size


@pytest.mark.parametrize("weight", [0.3, 1.0])
def test_loss_equals_plain_loops(examples: Examples, weight: float) -> None:
    known = {(q, p) for q in range(8) for p in range(12) if examples.is_spared(np.array([q]), np.array([p]))[0]}
    weights = np.array([[0.5, 0.3, 0.2], [0.1, 0.9, 0.0]])
    batch = TrainingBatch(np.array([2, 4]), np.array([1, 5, 11, 3, 3, 1]), weights, weight)
    generator = torch.Generator().manual_seed(0)
    queries, passages = (torch.randn(n, 3, dtype=torch.float64, generator=generator) for n in (2, 6))
    results = []
    for loss in (batch_loss, lambda q, p, b, _, s: oracle(q, p, b, known, s)):
        leaves = [queries.clone().requires_grad_(), passages.clone().requires_grad_()]
        value = loss(*leaves, batch, examples, 1.7)
        value.backward()
        results.append((value.detach(), leaves[0].grad, leaves[1].grad))
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


def test_examples_draw_what_the_teacher_scored(examples: Examples, path: Path) -> None:
    taught = replace(examples, targets=Targets.read(path, examples.queries), teacher_weight=0.4)
    row = int(np.flatnonzero(examples.queries == 0)[0])
    batch = draw_batch(taught, np.array([row]), 2, np.random.default_rng(0))
    assert batch.teacher_weight == 0.4 and batch.targets is not None and batch.targets.shape == (1, 3)
    inside = batch.passages[1:][batch.targets[0, 1:] > 0]
    assert set(inside.tolist()) <= set(LISTS[0])
    assert draw_batch(examples, np.array([row]), 2, np.random.default_rng(0)).targets is None


def test_trainings_draw_different_batches() -> None:
    sections = ("train_retriever", "train_dual_encoder", "pair.pretrain", "pair.finetune", "distil")
    assert len({stream(13, section) for section in sections}) == len(sections)
    assert stream(13, "distil") == stream(13, "distil") != stream(14, "distil")
