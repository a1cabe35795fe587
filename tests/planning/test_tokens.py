"""Lengths of five texts, worked out by hand."""

import pytest

from gnn_encoder.planning.tokens import Tokens, pairs_of

FIVE = Tokens.of([50, 10, 20, 40, 30])


def test_whole_is_the_shortest_length_that_reads_a_share_whole() -> None:
    assert [FIVE.whole(share) for share in (0.2, 0.21, 0.8, 0.95, 1.0)] == [10, 20, 40, 50, 50]


def test_what_a_length_cuts_off() -> None:
    assert FIVE.longer(30) == pytest.approx(2 / 5)
    assert FIVE.unread(30) == pytest.approx((10 + 20) / 150)
    assert FIVE.unread(50) == 0


def test_batches_are_padded_to_eight() -> None:
    assert FIVE.mean(256) == pytest.approx((16 + 24 + 32 + 40 + 56) / 5)
    assert FIVE.mean(20) == pytest.approx((16 + 20 + 20 + 20 + 20) / 5)


def test_a_random_batch_is_as_wide_as_its_longest_text() -> None:
    assert FIVE.widest(1, 256) == 32  # the median, 30, padded
    assert FIVE.widest(99, 256) == 56
    assert FIVE.widest(99, 48) == 48


def test_pairs_have_one_special_token_less() -> None:
    pairs = pairs_of(Tokens.of([10]), Tokens.of([50, 20, 30]))
    assert pairs.counts.tolist() == [29, 39, 59]
