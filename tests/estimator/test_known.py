"""Which vectors are known again: those that an encoder gives another time, and no others."""

import numpy as np
import pytest

from gnn_encoder.base.matrix import Matrix
from gnn_encoder.estimator.known import Known

from .data import unit


def normal(seed: int, rows: int, columns: int) -> Matrix:
    return np.random.default_rng(seed).standard_normal((rows, columns), dtype=np.float32)


def bfloat16(rows: Matrix) -> Matrix:
    """Rounded to 8 bits."""
    return ((rows.view(np.uint32) + 0x8000) & 0xFFFF0000).view(np.float32)


@pytest.mark.parametrize("columns", [32, 384])
def test_what_another_batch_size_or_type_gives_is_known_and_other_vectors_are_not(columns: int) -> None:
    vectors, noise = unit(normal(0, 20_000, columns)), normal(1, 20_000, columns)
    known, order = Known.of(vectors), np.random.default_rng(2).permutation(20_000)
    again = [vectors + np.float32(size) * noise for size in (0, 1e-7, 1e-6, 1e-5)]
    for one in [*again, vectors.astype(np.float16).astype(np.float32), bfloat16(vectors)]:
        assert (known.rows(one[order]) == order).mean() >= 0.999
    others = unit(normal(3, 20_000, columns))
    near = unit(vectors + 0.1 * unit(noise))  # of a cosine of 0.995
    for one in (others, -vectors, 1.1 * vectors, near):
        assert (known.rows(one) == -1).all()


def test_of_equal_vectors_the_one_at_its_place_comes_first_then_the_lowest() -> None:
    a, b, c, zero = np.vstack([np.eye(3), np.zeros(3)]).astype(np.float32)
    known = Known.of(np.stack([a, b, b, zero, b]))
    assert known.rows(np.stack([a, b, b, zero, b])).tolist() == [0, 1, 2, 3, 4]
    assert known.rows(np.stack([b, b, a, c, zero, b, b])).tolist() == [1, 1, 0, -1, 3, 4, 4]
    assert known.rows(np.stack([b, a]), first=3).tolist() == [1, 0]


def test_lengths_do_not_matter() -> None:
    vectors = normal(0, 1000, 16) * np.logspace(-3, 3, 1000, dtype=np.float32)[:, None]
    known, order = Known.of(vectors), np.random.default_rng(1).permutation(1000)
    assert (known.rows((vectors * np.float32(1.0001))[order]) == order).all()
