"""What the main system is worth: it against the best that costs the same online, and what is better than it."""

import logging
from dataclasses import dataclass

import polars as pl

from gnn_encoder.evaluate.measures import means_by_system, parse
from gnn_encoder.evaluate.significance import Comparison, compare_with
from gnn_encoder.evaluate.tables import SIGNIFICANT, are_ours, difference, p_value, read_record
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Evaluate
from gnn_encoder.pipeline.project import HYBRID, LEXICAL, LOGGED, MAIN, UNTOUCHED, registry, title_of

Splits = dict[str, Comparison]  # split -> comparison
# What to try where a simple system is better than what was trained.
CURES = {
    LEXICAL: "`gnn-encoder search --hybrid`",
    UNTOUCHED: "a longer encoder.passage_length (it reads all it can), more labelled queries, or lower learning rates",
    LOGGED: "`gnn-encoder search --hybrid`",
}


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


def claim_of_main(values: pl.DataFrame, section: Evaluate) -> Claim:
    """The main system against the best on dev of those with one vector per passage and no graph.

    Named are also the simple systems that are better than it on dev. p is that of a single comparison.

    Args:
        values: columns system, split, qid, measure, value.
    """
    (measure,) = parse([section.significance])
    found = means_by_system(values, [measure])
    means = {split: {system: of[measure] for system, of in systems.items()} for split, systems in found.items()}

    def compared(system: str, other: str) -> Splits:
        return {split: of[system] for split, of in compare_with(values, measure, {system: other}).items()}

    dev, graphs = means["dev"], registry().of_kind("graph")
    best = max((one for one in registry().one_vector if one in dev and one not in graphs), key=lambda one: dev[one])
    better = [one for one in CURES if one in dev and dev[one] > dev[MAIN]]
    named = [one for one in dev if one in (MAIN, best, HYBRID, *better)]
    return Claim(
        system=MAIN,
        measure=measure,
        best=best,
        means={split: {one: of[one] for one in named} for split, of in means.items()},
        against=compared(MAIN, best),
        better={one: compared(one, MAIN) for one in better},
    )


def read_claim() -> Claim | None:
    """The claim that `evaluate` wrote; None if it has not."""
    return read_record(project.METRICS / MAIN / "claim.json", Claim) if are_ours([MAIN]) else None


def claim_sentence(found: Claim) -> str:
    """The main system against the best that costs as much online, on both splits. Dev also chose what both are."""
    words = ", ".join(f"{_compared(one, split)} ({_verdict(one)})" for split, one in _splits(found.against))
    chosen = " Weights and settings were chosen on dev." if "dev" in found.against else ""
    return (
        f"{title_of(found.system)} against {title_of(found.best)}, the best on dev of its branch's systems with one "
        f"vector per passage and no graph, in {found.measure}: {words}.{chosen}"
    )


def advice(found: Claim) -> str:
    """What has more on dev than what was trained, and what to try; empty if nothing has."""
    told = []
    for system, splits in found.better.items():
        gains = ", ".join(_compared(one, split) for split, one in _splits(splits))
        more = f"{title_of(system)} has more on dev than {title_of(found.system)} ({gains})"
        told.append(f"{more}: try {CURES[system]}.")
    return " ".join(told)


def log_claim(found: Claim) -> None:
    """Print the claim, and last what is better than what was trained, if anything is."""
    log = logging.getLogger(__name__)
    log.info("\n%s", claim_sentence(found))
    if told := advice(found):
        log.warning("\n%s", told)


def _splits(found: Splits) -> list[tuple[str, Comparison]]:
    return [(split, found[split]) for split in ("test", "dev") if split in found]


def _compared(found: Comparison, split: str) -> str:
    return f"{split} {difference(found)}, p = {p_value(found.p)}".replace("= <", "<")


def _verdict(found: Comparison) -> str:
    if found.p >= SIGNIFICANT:
        return "no significant difference"
    return "better" if found.difference > 0 else "worse"
