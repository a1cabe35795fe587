"""Losses as functions of tensors: contrastive (GNN-encoder Eq. 2, 12; PAIR Eq. 3), passage-centric (PAIR Eq. 5)."""

import torch
import torch.nn.functional as F
from torch import Tensor


def contrastive_loss(scores: Tensor, positive: Tensor, masked: Tensor) -> Tensor:
    """Negative log-likelihood of each query's positive among the passages of its batch, summed over queries.

    L(q, p+, {p-}, s) = -log( e^{s(q,p+)} / (e^{s(q,p+)} + sum_{p-} e^{s(q,p-)}) )        (Eq. 2)

    Args:
        scores: s(q, p). *Shape:* (queries, passages).
        positive: column of each query's positive. *Shape:* (queries,).
        masked: True where a passage is no negative of the query, being judged relevant for it (or a copy of its
            positive); the positive's own column counts whatever the mask says. *Shape:* (queries, passages).
    """
    own = F.one_hot(positive, scores.shape[1]).bool()
    return F.cross_entropy(scores.masked_fill(masked & ~own, float("-inf")), positive, reduction="sum")


def passage_centric_loss(passages: Tensor, queries: Tensor, positive: Tensor, masked: Tensor) -> Tensor:
    """Negative log-likelihood of each positive passage's query among the passages of its batch, summed.

    L_P = -log( e^{s(p+,q)} / (e^{s(p+,q)} + sum_{p-} e^{s(p+,p-)}) )        (PAIR Eq. 5)

    Args:
        passages: s(p+, p) of each query's positive to every passage. *Shape:* (queries, passages).
        queries: s(p+, q) of each positive to its query. *Shape:* (queries,).
        positive: column of each positive itself. *Shape:* (queries,).
        masked: as in `contrastive_loss`: True where a passage is relevant for the query, the positive's copies
            among them. *Shape:* (queries, passages).
    """
    own = F.one_hot(positive, passages.shape[1]).bool()
    return contrastive_loss(torch.where(own, queries.unsqueeze(1), passages), positive, masked)
