"""The claim of the main system in a sentence, and what to try where something simple is better than it."""

from gnn_encoder.evaluation.claim import Claim, Splits
from gnn_encoder.evaluation.significance import Comparison
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.systems import HYBRID, LEXICAL, MAIN, UNTOUCHED
from gnn_encoder.presenting.artifacts import read_records
from gnn_encoder.presenting.formats import SIGNIFICANT, difference, p_value, points
from gnn_encoder.presenting.names import name_of

LONGER = "a longer encoder.passage_length (it reads all it can), more labelled queries, or lower learning rates"


def read_claim() -> Claim | None:
    """The claim that `evaluate` wrote; None if it has not."""
    return read_records(project.METRICS / MAIN / "claim.json", Claim)


def claim_sentence(found: Claim) -> str:
    """The main system against the best that costs as much online, on both splits. Dev also chose what both are."""
    words = ", ".join(f"{_compared(one, split)} ({_verdict(one)})" for split, one in _splits(found.against))
    chosen = " Weights and settings were chosen on dev." if "dev" in found.against else ""
    return (
        f"{name_of(found.system)} against {name_of(found.best)}, the best on dev of its branch's systems with one "
        f"vector per passage and no graph, in {found.measure}: {words}.{chosen}"
    )


def advice(found: Claim) -> str:
    """What is better than what was trained, and what to try; empty if nothing is."""
    return " ".join(_advice(found, system) for system in found.better)


def _advice(found: Claim, system: str) -> str:
    gains = ", ".join(_compared(one, split) for split, one in _splits(found.better[system]))
    cures = {LEXICAL: _hybrid(found), UNTOUCHED: LONGER}
    return f"{name_of(system)} is better than {name_of(found.system)} ({gains}): try {cures[system]}."


def _hybrid(found: Claim) -> str:
    means = [f"{split} {points(of[HYBRID])}" for split, of in found.means.items() if HYBRID in of]
    told = f", which is fused with it ({found.measure} {', '.join(means)})" if means else ""
    return f"`gnn-encoder search --hybrid`{told}"


def _splits(found: Splits) -> list[tuple[str, Comparison]]:
    return [(split, found[split]) for split in reversed(project.JUDGED) if split in found]


def _compared(found: Comparison, split: str) -> str:
    return f"{split} {difference(found)}, p = {p_value(found.p)}".replace("= <", "<")


def _verdict(found: Comparison) -> str:
    if found.p >= SIGNIFICANT:
        return "no significant difference"
    return "better" if found.difference > 0 else "worse"
