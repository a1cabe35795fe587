"""The teacher's soft targets: which passages are drawn and how they weigh, against plain loops."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from torch import Tensor

from gnn_encoder.base.tables import TARGETS, write_table
from gnn_encoder.train.dual_encoder import TEACHER_WEIGHT, batch_loss
from gnn_encoder.train.examples import Examples, Targets, TrainingBatch, draw_batch, stream

LISTS = {0: {3: 1.0, 5: -2.0, 8: 0.5, 9: 3.0}, 2: {1: 0.0, 7: 0.0}, 5: {4: 20.0}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    rows = [(query, passage, logit) for query, scored in LISTS.items() for passage, logit in scored.items()]
    schema = {"query": pl.Int32, "passage": pl.Int32, "logit": pl.Float32}
    write_table(tmp_path / "targets.parquet", TARGETS, [pl.DataFrame(rows, schema=schema, orient="row").to_arrow()])
    return tmp_path / "targets.parquet"


def test_lists_are_those_of_the_queries(path: Path) -> None:
    found = Targets.read(path, np.array([0, 1, 5]))
    assert found.passages.offsets.tolist() == [0, 4, 4, 5]
    assert found.passages.values.tolist() == [3, 5, 8, 9, 4]
    assert found.logits.tolist() == [1.0, -2.0, 0.5, 3.0, 20.0]


@pytest.mark.parametrize("count", [1, 2, 3, 6])
def test_drawn_passages_and_their_weights(path: Path, count: int) -> None:
    """The weights are the softmax of the log odds; positive 77 was not scored, and has all the weight."""
    queries, positives = [0, 0, 2, 5], [8, 77, 1, 4]
    targets, seen = Targets.read(path, np.array([0, 2, 5])), set[int]()
    for seed in range(50):
        generator = np.random.default_rng(seed)
        drawn, weights = targets.draw(np.array([0, 0, 1, 2]), np.array(positives), count, generator)
        assert drawn.shape == (4, count) and weights.shape == (4, 1 + count)
        for query, positive, others, weight in zip(queries, positives, drawn.tolist(), weights, strict=True):
            scored = LISTS[query]
            assert set(others) <= set(scored) and len(set(others)) >= min(count, len(scored))
            odds = np.exp([scored.get(passage, -np.inf) for passage in [positive, *others]])
            expected = odds / odds.sum() if positive in scored else np.eye(1 + count)[0]
            np.testing.assert_allclose(weight, expected, rtol=1e-5)
        seen |= set(drawn[0].tolist())
    assert seen == set(LISTS[0])


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
        losses.append((1 - TEACHER_WEIGHT) * labelled + TEACHER_WEIGHT * taught)
    return sum(losses) / size


def test_loss_equals_plain_loops(examples: Examples) -> None:
    known = {(q, p) for q in range(8) for p in range(12) if examples.is_spared(np.array([q]), np.array([p]))[0]}
    weights = np.array([[0.5, 0.3, 0.2], [0.1, 0.9, 0.0]])
    batch = TrainingBatch(np.array([2, 4]), np.array([1, 5, 11, 3, 3, 1]), weights)
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
    taught = replace(examples, targets=Targets.read(path, examples.queries))
    row = int(np.flatnonzero(examples.queries == 0)[0])
    batch = draw_batch(taught, np.array([row]), 2, np.random.default_rng(0))
    assert batch.targets is not None and batch.targets.shape == (1, 3)
    inside = batch.passages[1:][batch.targets[0, 1:] > 0]
    assert set(inside.tolist()) <= set(LISTS[0])
    assert draw_batch(examples, np.array([row]), 2, np.random.default_rng(0)).targets is None


def test_trainings_draw_different_batches() -> None:
    sections = ("train_retriever", "train_dual_encoder", "pair.pretrain", "pair.finetune", "distil")
    assert len({stream(13, section) for section in sections}) == len(sections)
    assert stream(13, "distil") == stream(13, "distil") != stream(14, "distil")
