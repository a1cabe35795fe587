"""Eq. 1, 2 and 12, and PAIR's Eq. 3, 5 and 6, against plain loops, values and gradients."""

import numpy as np
import pytest
import torch
from torch import Tensor

from gnn_encoder.train.dual_encoder import batch_loss
from gnn_encoder.train.examples import Examples, TrainingBatch


def oracle(
    queries: Tensor, passages: Tensor, batch: TrainingBatch, known: set[tuple[int, int]], scale: float, alpha: float
) -> Tensor:
    """Eq. 1, 2 and PAIR's 3, 5, 6 written out: one query, one passage at a time; the mean over queries."""

    def similarity(one: Tensor, other: Tensor) -> Tensor:
        return torch.exp(scale * sum(one[c] * other[c] for c in range(len(one))))

    losses, of_batch = [], list(enumerate(batch.passages.tolist()))
    for i, query in enumerate(batch.queries.tolist()):
        relevant = similarity(queries[i], passages[i])
        irrelevant = [j for j, passage in of_batch if j != i and (query, passage) not in known]
        by_query = relevant + sum(similarity(queries[i], passages[j]) for j in irrelevant)
        loss = -torch.log(relevant / by_query)
        by_passage = relevant + sum(similarity(passages[i], passages[j]) for j in irrelevant)
        losses.append((1 - alpha) * loss - alpha * torch.log(relevant / by_passage))
    return sum(losses) / len(losses)


@pytest.mark.parametrize("alpha", [0.0, 0.1, 1.0])
def test_batch_equals_plain_loops(examples: Examples, alpha: float) -> None:
    known = {(q, p) for q in range(8) for p in range(12) if examples.is_spared(np.array([q]), np.array([p]))[0]}
    # 0 and 1 share a positive; 11 is judged relevant for 2 and is 1's hard negative; 1 is 2's positive, 0's negative;
    # 3 is another positive of 1 and 4's hard negative.
    batch = TrainingBatch(np.array([0, 1, 2, 4]), np.array([0, 0, 1, 5, 1, 11, 0, 3]))
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
