"""The contrastive loss (GNN-encoder Eq. 2 and 12), as a function of tensors."""

import torch.nn.functional as F
from torch import Tensor


def contrastive_loss(scores: Tensor, positive: Tensor, masked: Tensor) -> Tensor:
    """Negative log-likelihood of each question's positive among the passages of its batch, summed over questions.

    L(q, p+, {p-}, s) = -log( e^{s(q,p+)} / (e^{s(q,p+)} + sum_{p-} e^{s(q,p-)}) )        (Eq. 2)

    Args:
        scores: s(q, p). *Shape:* (questions, passages).
        positive: column of each question's positive. *Shape:* (questions,).
        masked: True where a passage is no negative of the question, being judged relevant for it (or a copy of its
            positive); the positive's own column counts whatever the mask says. *Shape:* (questions, passages).
    """
    own = F.one_hot(positive, scores.shape[1]).bool()
    return F.cross_entropy(scores.masked_fill(masked & ~own, float("-inf")), positive, reduction="sum")
