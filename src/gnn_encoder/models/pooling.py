"""Pooling: the token states of a text become one vector."""

import torch
import torch.nn.functional as F
from torch import Tensor


def pool(states: Tensor, mask: Tensor, kind: str) -> Tensor:
    """The [CLS] state, or the mean of the states of real tokens, in float32.

    *Shape:* states (n, tokens, d), mask (n, tokens) of 0 and 1 -> (n, d).
    """
    if kind == "cls":
        return states[:, 0].float()
    # The sum is in float32, since one in 16 bits would lose digits.
    total = states.masked_fill(mask.unsqueeze(-1) == 0, 0).sum(dim=1, dtype=torch.float32)
    return total / mask.sum(dim=1, keepdim=True).clamp(min=1)


def embedding(states: Tensor, mask: Tensor, *, pooling: str, similarity: str) -> Tensor:
    """Pool, and scale to length 1 if the similarity is `cosine`. *Shape:* as `pool`."""
    vectors = pool(states, mask, pooling)
    return F.normalize(vectors, dim=-1) if similarity == "cosine" else vectors
