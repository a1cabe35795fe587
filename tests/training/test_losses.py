"""Eq. 1, 2 and 12, and PAIR's Eq. 3, 5 and 6, against arithmetic and plain loops, values and gradients."""

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from gnn_encoder.training.contrastive import PassageCentric, batch_loss
from gnn_encoder.training.examples import Examples, TrainingBatch
from gnn_encoder.training.losses import contrastive_loss, passage_centric_loss, passage_centric_loss_of_queries


def test_by_hand() -> None:
    scores = torch.tensor([[math.log(2), 0.0, math.log(5)], [math.log(3), math.log(4), 0.0]])
    positive = torch.tensor([0, 1])
    none = torch.zeros(2, 3, dtype=torch.bool)
    assert contrastive_loss(scores, positive, none).item() == pytest.approx(-math.log(2 / 8) - math.log(4 / 8))
    # Passage 2 is relevant for query 0; a mask over a positive itself is of no effect.
    masked = torch.tensor([[True, False, True], [False, True, False]])
    assert contrastive_loss(scores, positive, masked).item() == pytest.approx(-math.log(2 / 3) - math.log(4 / 8))


def test_passage_centric_by_hand() -> None:
    """The positive's similarity to itself, log 9, is nobody's term."""
    passages = torch.tensor([[math.log(9), 0.0, math.log(5)], [math.log(3), math.log(9), 0.0]])
    queries, positive = torch.tensor([math.log(2), math.log(4)]), torch.tensor([0, 1])
    none = torch.zeros(2, 3, dtype=torch.bool)
    loss = passage_centric_loss(passages, queries, positive, none)
    assert loss.item() == pytest.approx(-math.log(2 / (2 + 1 + 5)) - math.log(4 / (4 + 3 + 1)))
    masked = torch.tensor([[True, False, True], [False, True, False]])
    loss = passage_centric_loss(passages, queries, positive, masked)
    assert loss.item() == pytest.approx(-math.log(2 / (2 + 1)) - math.log(4 / 8))


def test_passage_centric_of_queries_by_hand() -> None:
    """Two positives, two queries, and one hard negative, which is relevant for the second."""
    queries = torch.tensor([[math.log(2), math.log(3)], [math.log(5), math.log(4)]])
    negatives, own = torch.tensor([[math.log(7)], [math.log(6)]]), torch.tensor([0, 1])
    masked = torch.tensor([[False, False, False], [False, False, True]])
    loss = passage_centric_loss_of_queries(queries, negatives, own, masked)
    assert loss.item() == pytest.approx(-math.log(2 / (2 + 3 + 7)) - math.log(4 / (5 + 4)))
    # The first positive is relevant for the second query, too; a mask over its own query is of no effect.
    masked = torch.tensor([[True, True, False], [False, False, False]])
    loss = passage_centric_loss_of_queries(queries, negatives, own, masked)
    assert loss.item() == pytest.approx(-math.log(2 / (2 + 7)) - math.log(4 / (5 + 4 + 6)))


def oracle(
    queries: Tensor,
    passages: Tensor,
    batch: TrainingBatch,
    known: set[tuple[int, int]],
    scale: float,
    alpha: float,
) -> Tensor:
    """Eq. 1, 2 and PAIR's 3, 5, 6 written out: one query, one passage at a time; the mean over queries."""

    def similarity(one: Tensor, other: Tensor) -> Tensor:
        return torch.exp(scale * sum(one[c] * other[c] for c in range(len(one))))

    losses = []
    for i, query in enumerate(batch.queries.tolist()):
        relevant = similarity(queries[i], passages[i])
        irrelevant = [
            j for j, passage in enumerate(batch.passages.tolist()) if j != i and (query, passage) not in known
        ]
        by_query = relevant + sum(similarity(queries[i], passages[j]) for j in irrelevant)
        by_passage = relevant + sum(similarity(passages[i], passages[j]) for j in irrelevant)
        losses.append(-(1 - alpha) * torch.log(relevant / by_query) - alpha * torch.log(relevant / by_passage))
    return sum(losses) / len(losses)


@pytest.mark.parametrize("alpha", [0.0, 0.1, 1.0])
def test_batch_equals_plain_loops(examples: Examples, alpha: float) -> None:
    known = {(q, p) for q in range(8) for p in range(12) if examples.is_known(np.array([q]), np.array([p]))[0, 0]}
    # 0 and 1 share a positive; 11 is judged relevant for 2 and is 1's hard negative; 1 is 2's positive, 0's negative;
    # 3 is another positive of 1 and 4's hard negative.
    batch = TrainingBatch(np.array([0, 1, 2, 4]), np.array([0, 0, 1, 5, 1, 11, 0, 3]))
    assert {(0, 0), (1, 0), (1, 3), (2, 1), (2, 11), (4, 5)} <= known and (0, 1) not in known
    generator = torch.Generator().manual_seed(0)
    queries, passages = (torch.randn(n, 3, dtype=torch.float64, generator=generator) for n in (4, 8))
    results = []
    for loss in (
        lambda q, p: batch_loss(q, p, batch, examples, 1.7, passage_centric=PassageCentric(alpha)),
        lambda q, p: oracle(q, p, batch, known, 1.7, alpha),
    ):
        leaves = [queries.clone().requires_grad_(), passages.clone().requires_grad_()]
        value = loss(*leaves)
        value.backward()
        results.append((value.detach(), leaves[0].grad, leaves[1].grad))
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


Matrix = NDArray[np.float64]


def softmax_loss(scores: Matrix, counts: NDArray[np.bool_]) -> tuple[float, Matrix]:
    """-sum_i log softmax(scores[i, counts[i]])_i, and its derivatives by the scores."""
    odds = np.exp(scores) * counts
    odds /= odds.sum(axis=1, keepdims=True)
    own = np.eye(*scores.shape)
    return -np.log(odds[own == 1]).sum(), odds - own


def released(
    queries: Matrix, passages: Matrix, batch: TrainingBatch, known: set[tuple[int, int]], scale: float, alpha: float
) -> tuple[float, Matrix, Matrix]:
    """The loss of the code that PAIR's authors released, but that relevant pairs do not count, and its gradients.

    logits = q [p+; p-]^T,  logits_qp = p+ [q; p-]^T,  (1 - alpha) mean CE(logits) + alpha mean CE(logits_qp)
    """
    size = len(queries)
    positives, hard = passages[:size], passages[size:]
    own = np.eye(size, dtype=bool)
    asked, rows = batch.queries.tolist(), batch.passages.tolist()
    unknown = np.array([[(query, row) not in known for row in rows] for query in asked])
    by_query = np.concatenate([unknown[:, :size] | own, unknown[:, size:]], axis=1)
    by_passage = np.concatenate([unknown[:, :size].T | own, unknown[:, size:]], axis=1)
    mixed = np.concatenate([queries, hard])
    centric, d_centric = softmax_loss(scale * queries @ passages.T, by_query)
    passage_centric, d_passage = softmax_loss(scale * positives @ mixed.T, by_passage)
    d_centric, d_passage = (1 - alpha) * scale / size * d_centric, alpha * scale / size * d_passage
    d_mixed = d_passage.T @ positives
    d_queries = d_centric @ passages + d_mixed[:size]
    d_passages = d_centric.T @ queries + np.concatenate([d_passage @ mixed, d_mixed[size:]])
    return ((1 - alpha) * centric + alpha * passage_centric) / size, d_queries, d_passages


@pytest.mark.parametrize("alpha", [0.1, 1.0])
@pytest.mark.parametrize("hard", [0, 1, 2])
def test_passage_centric_loss_of_the_released_code(examples: Examples, alpha: float, hard: int) -> None:
    known = {(q, p) for q in range(8) for p in range(12) if examples.is_known(np.array([q]), np.array([p]))[0, 0]}
    negatives = np.array([1, 11, 0, 3, 3, 2, 11, 6])[: 4 * hard]
    batch = TrainingBatch(np.array([0, 1, 2, 4]), np.concatenate([[0, 0, 1, 5], negatives]))
    assert {(0, 0), (1, 0)} <= known  # 0 and 1 share a positive: neither query counts for the other
    generator = np.random.default_rng(0)
    values = [generator.normal(size=(n, 3)) for n in (4, 4 + 4 * hard)]
    expected = released(*values, batch, known, 1.7, alpha)
    leaves = [torch.from_numpy(value).requires_grad_() for value in values]
    loss = batch_loss(*leaves, batch, examples, 1.7, passage_centric=PassageCentric(alpha, "queries"))
    loss.backward()
    assert loss.item() == pytest.approx(expected[0], abs=1e-12)
    for leaf, gradient in zip(leaves, expected[1:], strict=True):
        np.testing.assert_allclose(leaf.grad, gradient, rtol=0, atol=1e-12)


def test_a_judged_passage_gets_no_gradient_from_its_query(examples: Examples) -> None:
    batch = TrainingBatch(np.array([2]), np.array([1, 11, 3]))  # 11 is relevant for 2, 3 is not
    passages = torch.ones(3, 2, dtype=torch.float64, requires_grad=True)
    batch_loss(torch.ones(1, 2, dtype=torch.float64), passages, batch, examples, 1.0).backward()
    assert passages.grad is not None
    assert passages.grad[1].tolist() == [0, 0]
    assert passages.grad[2].tolist() == pytest.approx([0.5, 0.5])
    assert passages.grad[0].tolist() == pytest.approx([-0.5, -0.5])
