"""What the main system is worth: it against the best that costs the same online, and what is better than it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import polars as pl

from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.evaluation.measures import parse
from gnn_encoder.evaluation.params import Evaluate
from gnn_encoder.evaluation.significance import Comparison, compare_pairs
from gnn_encoder.pipeline.systems import HYBRID, LEXICAL, MAIN, UNTOUCHED, registry

Splits = dict[str, Comparison]  # split -> comparison


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The claim of the main system.

    Attributes:
        system: the main system.
        measure: that of all values.
        best: the best on dev of the other systems with one vector per passage.
        means: split -> system -> mean, of the systems that are named here.
        against: `system` minus `best`.
        better: BM25 and the untouched model, where they are above `system` on dev: they minus `system`.
    """

    system: str
    measure: str
    best: str
    means: dict[str, dict[str, float]]
    against: Splits
    better: dict[str, Splits]


def measure_claim(values: pl.DataFrame, section: Evaluate) -> Claim:
    """Compare the main system with its rivals; p is that of a single comparison.

    Args:
        values: columns system, split, qid, measure, value; the main system and at least one rival are there.
    """
    (measure,) = parse([section.significance])
    values = values.filter(pl.col("measure") == measure)
    means = {
        str(split): dict(part.group_by("system", maintain_order=True).agg(pl.col("value").mean()).iter_rows())
        for (split,), part in values.group_by("split", maintain_order=True)
    }
    dev, others = means["dev"], rivals(list(means["dev"]))
    best = max(others, key=lambda system: dev[system])
    better = [system for system in (LEXICAL, UNTOUCHED) if system in dev and dev[system] > dev[MAIN]]
    named = [system for system in dev if system in (MAIN, best, HYBRID, *better)]
    return Claim(
        system=MAIN,
        measure=measure,
        best=best,
        means={split: {system: of[system] for system in named} for split, of in means.items()},
        against=_compared(values, MAIN, best),
        better={system: _compared(values, system, MAIN) for system in better},
    )


def rivals(systems: Sequence[str]) -> list[str]:
    """Those of the systems that have one vector per passage and no graph."""
    return [one for one in systems if one in registry().one_vector and one not in registry().graphs]


def write_claim(folder: Path, values: pl.DataFrame, section: Evaluate) -> Claim:
    """Measure the claim and write claim.json."""
    found = measure_claim(values, section)
    write_json(folder / "claim.json", asdict(found))
    return found


def _compared(values: pl.DataFrame, system: str, other: str) -> Splits:
    return {
        str(split): compare_pairs(part, {system: other})[system]
        for (split,), part in values.group_by("split", maintain_order=True)
    }
