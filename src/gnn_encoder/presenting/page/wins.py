"""The queries that won and lost most between two systems, for every pair of systems."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.pipeline import project


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The second system against the first.

    Attributes:
        won, lost: rows of the queries that gained and lost most.
        better, worse, same: numbers of queries.
    """

    first: str
    second: str
    won: list[int]
    lost: list[int]
    better: int
    worse: int
    same: int


def read_values(systems: Sequence[str], split: str, measure: str) -> pl.DataFrame:
    """The values of each query: column `qid`, then one column per system, null if the query was not measured for it."""
    files = [project.measured(system) / project.VALUES for system in systems]
    values = pl.scan_parquet(files).filter(split=split, measure=measure).collect()
    return values.pivot("system", index="qid", values="value", maintain_order=True)


def pairs(values: pl.DataFrame, top: int) -> list[Pair]:
    """The `top` queries that won most and the `top` that lost most, for every two systems of `values`.

    Many queries gain equally much. Among these, queries that an earlier pair already shows come first, so that the page
    shows few queries in all.
    """
    columns = {name: values[name].to_numpy() for name in values.columns if name != "qid"}
    shown = np.zeros(len(values), dtype=bool)
    found = []
    for first, second in combinations(columns, 2):
        gain = columns[second] - columns[first]  # NaN if a value is missing
        won, lost = _most(gain, shown, top), _most(-gain, shown, top)
        shown[won + lost] = True
        better, worse, same = (int(test.sum()) for test in (gain > 0, gain < 0, gain == 0))
        found.append(Pair(first=first, second=second, won=won, lost=lost, better=better, worse=worse, same=same))
    return found


def _most(gain: NDArray[np.float64], shown: NDArray[np.bool_], top: int) -> list[int]:
    """Rows of the `top` largest gains above 0, largest first."""
    rows = np.flatnonzero(gain > 0)
    order = np.lexsort((rows, ~shown[rows], -gain[rows]))
    return [int(row) for row in rows[order][:top]]
