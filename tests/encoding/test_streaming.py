"""Windows: results in the rows' order whatever the batches, inputs made ahead in order."""

import time

import numpy as np
import pytest
import torch

from gnn_encoder.encoding.streaming import encode_prepared, prefetch, prepare_window
from gnn_encoder.models.batch import Batch


def test_rows_come_back_in_order() -> None:
    lengths = np.array([3, 9, 1, 9, 4, 2])
    seen: list[int] = []

    def make(positions: np.ndarray) -> Batch:
        rows = torch.from_numpy(positions)[:, None]
        return Batch(rows, torch.ones_like(rows), torch.zeros_like(rows))

    def encode(batch: Batch) -> torch.Tensor:
        seen.append(len(batch.input_ids))
        return torch.cat([batch.input_ids * 10.0, -batch.input_ids], dim=1)

    vectors = encode_prepared(prepare_window(make, lengths, batch_tokens=32), len(lengths), encode)
    assert vectors.tolist() == [[10.0 * i, -i] for i in range(6)]
    assert vectors.dtype == np.float32
    assert seen == [2, 4]


def test_prefetch_keeps_order_and_works_ahead() -> None:
    started = []

    def make(item: int) -> int:
        started.append(item)
        time.sleep(0.01 * (3 - item))
        return item * item

    results = prefetch(make, range(3))
    assert next(results) == (0, 0)
    time.sleep(0.05)
    assert started == [0, 1]  # the next one, and no more
    assert list(results) == [(1, 1), (2, 4)]
    assert list(prefetch(make, [])) == []


def test_prefetch_passes_errors_on() -> None:
    def make(item: int) -> int:
        if item == 1:
            raise ValueError("row 1")
        return item

    results = prefetch(make, range(3))
    assert next(results) == (0, 0)
    with pytest.raises(ValueError, match="row 1"):
        next(results)
