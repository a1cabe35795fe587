"""Top-k sampling (Fan et al. 2018) with random numbers that belong to a token's place, not to the order of work.

Token t of view v of passage i is picked by one uniform number u(seed, i, v, t), a hash. Queries are so the same in
whatever batches, on however many devices, and after a resumed run.
"""

import torch
from torch import Tensor

GOLDEN = -0x61C8_8646_80B5_83EB  # splitmix64's constants, as signed 64-bit numbers
FIRST = -0x40A7_B892_E31B_1A47
SECOND = -0x6B2F_B644_ECCE_EE15


def uniforms(seed: int, passages: Tensor, views: Tensor, position: int) -> Tensor:
    """u(seed, i, v, t) in [0, 1), by one round of splitmix64 a number. *Shape:* (n,), (n,) -> (n,) float64."""
    state = torch.full_like(passages, seed, dtype=torch.int64)
    for number in (passages, views, torch.full_like(views, position)):
        state = _mix(state + GOLDEN) ^ number
    return _shift(_mix(state + GOLDEN), 11).double() * 2.0**-53


def sample_top_k(logits: Tensor, top_k: int, uniform: Tensor) -> Tensor:
    """One token a row: among the `top_k` most likely ones, renormalised, the one where their CDF passes `uniform`.

    Candidates are ordered from the most likely one.

    *Shape:* logits (n, vocabulary), uniform (n,) -> (n,).
    """
    values, tokens = logits.topk(min(top_k, logits.shape[1]), dim=1)
    cumulative = torch.softmax(values.double(), dim=1).cumsum(dim=1)
    # Not 1 but the sum as it came out: no number in [0, 1) falls behind the last candidate, and none on one that
    # has no probability, since it adds nothing to the sum.
    passed = cumulative <= uniform.unsqueeze(1) * cumulative[:, -1:]
    return tokens.gather(1, passed.sum(dim=1, keepdim=True)).squeeze(1)


def _mix(state: Tensor) -> Tensor:
    state = (state ^ _shift(state, 30)) * FIRST
    state = (state ^ _shift(state, 27)) * SECOND
    return state ^ _shift(state, 31)


def _shift(state: Tensor, bits: int) -> Tensor:
    """Logical shift to the right: torch's own fills in the sign."""
    return (state >> bits) & ((1 << (64 - bits)) - 1)
