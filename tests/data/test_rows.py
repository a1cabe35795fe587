"""Ids by hash: membership and duplicates as a Python set would tell them."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from gnn_encoder.core.errors import UserError
from gnn_encoder.data import rows as module
from gnn_encoder.data.rows import Ids, Place


def collect(*batches: list[str]) -> tuple[Ids, list[tuple[Place, str]]]:
    ids = Ids()
    for batch in batches:
        ids.add(batch)
    names = [name for batch in batches for name in batch]
    return ids, [(Place(Path("f"), f"line {i}"), name) for i, name in enumerate(names, start=1)]


def test_contain() -> None:
    ids, rows = collect(["a", "b"], ["", "ä"])
    ids.check_unique(rows, "_id")
    assert ids.contain(pl.Series(["b", "c", "", "ä", "a "])).tolist() == [True, False, True, True, False]


def test_duplicates_are_found_over_batches() -> None:
    ids, rows = collect(["a", "b", "c"], ["d", "b", "a"])
    with pytest.raises(UserError) as error:
        ids.check_unique(rows, "_id")
    assert str(error.value) == "f, line 5, _id: 'b' is also the id in line 2; give each row its own"


def test_a_collision_of_hashes_is_no_duplicate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "hash_ids", lambda ids: np.full(len(ids), 7, dtype=np.uint64))
    ids, rows = collect(["a", "b"])
    ids.check_unique(rows, "_id")
    ids, rows = collect(["a", "b", "a"])
    with pytest.raises(UserError, match="line 3, _id: 'a' is also the id in line 1"):
        ids.check_unique(rows, "_id")
