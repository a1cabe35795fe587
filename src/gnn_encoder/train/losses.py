"""Losses as functions of tensors: contrastive (GNN-encoder Eq. 2, 12; PAIR Eq. 3), passage-centric (PAIR Eq. 5)."""

import torch
import torch.nn.functional as F
from torch import Tensor


def contrastive_loss(scores: Tensor, positive: Tensor, masked: Tensor) -> Tensor:
    """Negative log-likelihood of each query's positive among the passages of its batch, summed over queries.

    L(q, p+, {p-}, s) = -log( e^{s(q,p+)} / (e^{s(q,p+)} + sum_{p-} e^{s(q,p-)}) )        (Eq. 2)

    What is `masked` is no negative, since it is known to be relevant or is another copy of the positive. The column
    `positive` always counts.

    *Shape:* scores s(q, p) (queries, passages), positive (queries,), masked (queries, passages).
    """
    own = F.one_hot(positive, scores.shape[1]).bool()
    return F.cross_entropy(scores.masked_fill(masked & ~own, float("-inf")), positive, reduction="sum")


def passage_centric_loss(passages: Tensor, queries: Tensor, positive: Tensor, masked: Tensor) -> Tensor:
    """Negative log-likelihood of each positive's query, against the passages of its batch, summed over positives.

    L_P = -log( e^{s(p+,q)} / (e^{s(p+,q)} + sum_{p-} e^{s(p+,p-)}) )        (PAIR Eq. 5)

    `positive` is the column of each positive itself; `masked` is as in `contrastive_loss`.

    *Shape:* passages s(p+, p) (queries, passages), queries s(p+, q) (queries,), positive (queries,), masked (queries,
    passages).
    """
    own = F.one_hot(positive, passages.shape[1]).bool()
    return contrastive_loss(torch.where(own, queries.unsqueeze(1), passages), positive, masked)
