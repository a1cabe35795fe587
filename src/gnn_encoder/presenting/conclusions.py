"""The main system's claim in a sentence, what to try where something simple is better, and what was chosen on dev."""

import logging

from gnn_encoder.controls.choose import Choice, Setting
from gnn_encoder.evaluation.claim import Claim, Splits
from gnn_encoder.evaluation.significance import Comparison
from gnn_encoder.pipeline.project import LEXICAL, LOGGED, UNTOUCHED, title_of
from gnn_encoder.presenting.formats import SIGNIFICANT, count, difference, p_value, points
from gnn_encoder.presenting.tables import Table

# What to try where a simple system is better than what was trained.
CURES = {
    LEXICAL: "`gnn-encoder search --hybrid`",
    LOGGED: "`gnn-encoder search --hybrid`",
    UNTOUCHED: "a longer encoder.passage_length (it reads all it can), more labelled queries, or lower learning rates",
}
NOTE = (
    "Weights are lambda of the mean of labelled queries, standard deviations of M_de's scores of one query's passages "
    "for logged queries, and BM25's share of the hybrid"
)


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
    return " ".join(_advice(found, system) for system in found.better)


def log_claim(found: Claim) -> None:
    """Print the claim, and last what is better than what was trained, if anything is."""
    log = logging.getLogger(__name__)
    log.info("\n%s", claim_sentence(found))
    if told := advice(found):
        log.warning("\n%s", told)


def choices_table(found: dict[str, Choice]) -> Table:
    """What the systems without training chose on dev: setting, value, and the range of all values."""
    measure, queries = next((one.measure, one.queries) for one in found.values())
    columns = ["System", "chosen", f"dev {measure}", "all that were tried"]
    rows = [
        [title_of(name), _setting(one.setting), points(one.chosen.value), _range(one)] for name, one in found.items()
    ]
    title = f"Chosen on {count(queries)} dev queries, points of 100"
    return Table(title=title, columns=columns, rows=rows, note=NOTE)


def _advice(found: Claim, system: str) -> str:
    gains = ", ".join(_compared(one, split) for split, one in _splits(found.better[system]))
    return f"{title_of(system)} has more on dev than {title_of(found.system)} ({gains}): try {CURES[system]}."


def _splits(found: Splits) -> list[tuple[str, Comparison]]:
    return [(split, found[split]) for split in ("test", "dev") if split in found]


def _compared(found: Comparison, split: str) -> str:
    return f"{split} {difference(found)}, p = {p_value(found.p)}".replace("= <", "<")


def _verdict(found: Comparison) -> str:
    if found.p >= SIGNIFICANT:
        return "no significant difference"
    return "better" if found.difference > 0 else "worse"


def _setting(setting: Setting) -> str:
    shown = {name: f"{value:.4g}" if isinstance(value, float) else str(value) for name, value in setting.items()}
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in shown.items())


def _range(choice: Choice) -> str:
    values = [one.value for one in choice.tried]
    return f"{len(values)}: {points(min(values))} to {points(max(values))}"
