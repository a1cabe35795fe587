"""What a system is worth: it against the best that costs the same online, and what is better than it."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from gnn_encoder.evaluation.significance import Comparison, compare_pairs
from gnn_encoder.evaluation.values import by_split

Splits = dict[str, Comparison]  # split -> comparison


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The claim of a system.

    Attributes:
        system: the system.
        measure: that of all values.
        best: its best rival on dev.
        means: split -> system -> mean, of the systems that are named here.
        against: `system` minus `best`.
        better: simple systems that are above `system` on dev: they minus `system`.
    """

    system: str
    measure: str
    best: str
    means: dict[str, dict[str, float]]
    against: Splits
    better: dict[str, Splits]


def measure_claim(
    values: pl.DataFrame,
    measure: str,
    *,
    system: str,
    rivals: Sequence[str],
    simple: Sequence[str],
    beside: Sequence[str] = (),
) -> Claim:
    """Compare a system with its rivals; p is that of a single comparison.

    Args:
        values: columns system, split, qid, measure, value; the system and at least one rival are there.
        rivals: systems that cost the same online.
        simple: systems that a reader is told of where they are better.
        beside: further systems whose means are kept.
    """
    values = values.filter(pl.col("measure") == measure)
    means = {
        split: dict(part.group_by("system", maintain_order=True).agg(pl.col("value").mean()).iter_rows())
        for split, part in by_split(values).items()
    }
    dev = means["dev"]
    best = max((one for one in dev if one in rivals), key=lambda one: dev[one])
    better = [one for one in simple if one in dev and dev[one] > dev[system]]
    named = [one for one in dev if one in (system, best, *beside, *better)]
    return Claim(
        system=system,
        measure=measure,
        best=best,
        means={split: {one: of[one] for one in named} for split, of in means.items()},
        against=_compared(values, system, best),
        better={one: _compared(values, one, system) for one in better},
    )


def _compared(values: pl.DataFrame, system: str, other: str) -> Splits:
    return {split: compare_pairs(part, {system: other})[system] for split, part in by_split(values).items()}
