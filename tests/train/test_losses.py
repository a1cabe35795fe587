"""Eq. 1, 2 and 12, and PAIR's Eq. 3, 5 and 6, against plain loops, values and gradients."""

import numpy as np
import pytest
import torch
from torch import Tensor

from gnn_encoder.train.dual_encoder import TEACHER_WEIGHT, batch_loss
from gnn_encoder.train.examples import Examples, TrainingBatch


def oracle(
    queries: Tensor, passages: Tensor, batch: TrainingBatch, known: set[tuple[int, int]], scale: float, alpha: float
) -> Tensor:
    """Eq. 1, 2 and PAIR's 3, 5, 6 written out: one query, one passage at a time; the mean over queries.

    With soft targets t the first is (1 - lambda) Eq. 2 on the other queries' passages + lambda KL(t || own scores).
    """

    def similarity(one: Tensor, other: Tensor) -> Tensor:
        return torch.exp(scale * sum(one[c] * other[c] for c in range(len(one))))

    losses, size, each = [], len(batch.queries), len(batch.passages) // len(batch.queries) - 1
    for i, query in enumerate(batch.queries.tolist()):
        relevant, own = similarity(queries[i], passages[i]), [i, *(size + i * each + j for j in range(each))]
        irrelevant = [
            j for j, passage in enumerate(batch.passages.tolist()) if j != i and (query, passage) not in known
        ]
        of_query = [j for j in irrelevant if j not in own] if batch.targets is not None else irrelevant
        by_query = relevant + sum(similarity(queries[i], passages[j]) for j in of_query)
        loss = -torch.log(relevant / by_query)
        if batch.targets is not None:
            scores = torch.stack([similarity(queries[i], passages[j]) for j in own])
            taught = -(torch.from_numpy(batch.targets[i]) * torch.log(scores / scores.sum())).sum()
            loss = (1 - TEACHER_WEIGHT) * loss + TEACHER_WEIGHT * taught
        by_passage = relevant + sum(similarity(passages[i], passages[j]) for j in irrelevant)
        losses.append((1 - alpha) * loss - alpha * torch.log(relevant / by_passage))
    return sum(losses) / len(losses)


TARGETS = np.array([[0.5, 0.5], [0.1, 0.9], [1.0, 0.0], [0.3, 0.7]])  # the teacher's, of each query's own passages


@pytest.mark.parametrize(("alpha", "targets"), [(0.0, None), (0.1, None), (1.0, None), (0.0, TARGETS)])
def test_batch_equals_plain_loops(examples: Examples, alpha: float, targets: np.ndarray | None) -> None:
    known = {(q, p) for q in range(8) for p in range(12) if examples.is_spared(np.array([q]), np.array([p]))[0]}
    # 0 and 1 share a positive; 11 is judged relevant for 2 and is 1's hard negative; 1 is 2's positive, 0's negative;
    # 3 is another positive of 1 and 4's hard negative.
    batch = TrainingBatch(np.array([0, 1, 2, 4]), np.array([0, 0, 1, 5, 1, 11, 0, 3]), targets)
    assert {(0, 0), (1, 0), (1, 3), (2, 1), (2, 11), (4, 5)} <= known and (0, 1) not in known
    generator = torch.Generator().manual_seed(0)
    queries, passages = (torch.randn(n, 3, dtype=torch.float64, generator=generator) for n in (4, 8))
    results = []
    for loss in (
        lambda q, p: batch_loss(q, p, batch, examples, 1.7, alpha=alpha),
        lambda q, p: oracle(q, p, batch, known, 1.7, alpha),
    ):
        leaves = [queries.clone().requires_grad_(), passages.clone().requires_grad_()]
        value = loss(*leaves)
        value.backward()
        results.append((value.detach(), leaves[0].grad, leaves[1].grad))
    torch.testing.assert_close(*results, rtol=0, atol=1e-9)
