"""Top-k sampling (Fan et al. 2018) with random numbers that do not depend on the order of computation.

Token t of view v of passage i is drawn with one uniform number u(seed, i, v, t), which is a hash of these four. The
queries are therefore the same for any batches, for any number of devices, and after a resumed run.
"""

import torch
from torch import Tensor

GOLDEN = -0x61C8_8646_80B5_83EB  # splitmix64's constants, as signed 64-bit numbers
FIRST = -0x40A7_B892_E31B_1A47
SECOND = -0x6B2F_B644_ECCE_EE15


def uniforms(seed: int, passages: Tensor, views: Tensor, position: int) -> Tensor:
    """u(seed, i, v, t) in [0, 1): one round of splitmix64 for each of the four. *Shape:* (n,), (n,) -> (n,) float64."""
    state = torch.full_like(passages, seed, dtype=torch.int64)
    for number in (passages, views, torch.full_like(views, position)):
        state = _mix(state + GOLDEN) ^ number
    return _shift(_mix(state + GOLDEN), 11).double() * 2.0**-53


def sample_top_k(logits: Tensor, top_k: int, uniform: Tensor) -> Tensor:
    """Draw one token per row from the `top_k` most likely tokens, with their probabilities renormalised.

    With the tokens ordered from the most likely one, it is the first whose cumulative probability exceeds `uniform`.

    *Shape:* logits (n, vocabulary), uniform (n,) -> (n,).
    """
    values, tokens = logits.topk(min(top_k, logits.shape[1]), dim=1)
    cumulative = torch.softmax(values.double(), dim=1).cumsum(dim=1)
    # `uniform` is scaled by the sum as computed, which need not be exactly 1. So no number in [0, 1) falls behind the
    # last token, and none selects a token of probability 0, since that adds nothing to the sum.
    passed = cumulative <= uniform.unsqueeze(1) * cumulative[:, -1:]
    return tokens.gather(1, passed.sum(dim=1, keepdim=True)).squeeze(1)


def _mix(state: Tensor) -> Tensor:
    state = (state ^ _shift(state, 30)) * FIRST
    state = (state ^ _shift(state, 27)) * SECOND
    return state ^ _shift(state, 31)


def _shift(state: Tensor, bits: int) -> Tensor:
    """Logical shift to the right (that of torch is arithmetic: it repeats the sign bit)."""
    return (state >> bits) & ((1 << (64 - bits)) - 1)
