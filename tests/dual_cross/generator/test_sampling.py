"""Random numbers by place, and top-k sampling by inverse CDF, against plain Python and against the probabilities."""

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from gnn_encoder.dual_cross.generation import sample_top_k, uniforms

WORD = 2**64


def splitmix(state: int) -> int:
    """The published generator's step: Steele, Lea and Flood 2014."""
    state = (state + 0x9E3779B97F4A7C15) % WORD
    state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % WORD
    state = (state ^ state >> 27) * 0x94D049BB133111EB % WORD
    return state ^ state >> 31


def uniform(seed: int, passage: int, view: int, position: int) -> float:
    state = seed
    for number in (passage, view, position):
        state = splitmix(state) ^ number
    return (splitmix(state) >> 11) / 2**53


def test_uniforms_equal_plain_integers() -> None:
    passages, views = torch.tensor([0, 1, 8_841_822, 2**31]), torch.tensor([0, 2, 9, 126])
    for seed, position in ((0, 0), (13, 5), (2**32 - 1, 22)):
        found = uniforms(seed, passages, views, position)
        places = zip(passages.tolist(), views.tolist(), strict=True)
        assert found.tolist() == [uniform(seed, passage, view, position) for passage, view in places]


@pytest.mark.parametrize(
    ("number", "expected"),
    [(0.0, 3), (0.49, 3), (0.51, 1), (0.74, 1), (0.76, 4), (1 - 2**-53, 4)],
)
def test_token_where_the_cdf_passes(number: float, expected: int) -> None:
    """Of 0.2, 0.4, 0.1 ... the three best are 0.4, 0.2, 0.2 (token 3, 1, 4): 1/2, 1/4, 1/4."""
    logits = torch.tensor([[0.05, 0.2, 0.05, 0.4, 0.2 - 1e-9, 0.1]], dtype=torch.float64).log()
    assert sample_top_k(logits, 3, torch.tensor([number], dtype=torch.float64)).tolist() == [expected]


def test_frequencies_agree_with_probabilities() -> None:
    torch.manual_seed(2)
    logits = torch.randn(30) * 1.5
    best = logits.topk(10)
    n = 20_000
    numbers = uniforms(3, torch.arange(n), torch.zeros(n, dtype=torch.int64), 4)
    drawn = sample_top_k(logits.expand(n, -1), 10, numbers)
    counts = np.array([(drawn == token).sum().item() for token in best.indices])
    assert counts.sum() == n
    expected = torch.softmax(best.values.double(), 0).numpy() * n
    assert chisquare(counts, expected).pvalue > 0.001
    shifted = np.roll(expected, 1)
    assert chisquare(counts, shifted).pvalue < 1e-9
