"""Tables and sentences that the terminal, the report and documents show of what was measured.

Among them is the claim: the main system against the best that costs the same online, and what is better than it.
"""

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from gnn_encoder.base.errors import UserError, without_controls
from gnn_encoder.base.files import Form, fingerprint, read_json
from gnn_encoder.base.tables import read_column
from gnn_encoder.evaluate.measures import Comparison, Comparisons, Means, compare_with, means_by_system
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.project import (
    CONTROL,
    LEXICAL,
    LOGGED,
    MAIN,
    PLUS,
    REFERENCE,
    UNTOUCHED,
    registry,
    title_of,
)

log = logging.getLogger(__name__)
SIGNIFICANT = 0.05
DATA = "data"  # key of the metadata of measured values: what `data_key` was
NOTHING = "–"  # where there is no number
BETTER, WORSE = "▲", "▼"  # the report colours cells that begin with one of them
HOW_TO_READ = (
    "A difference is a mean of unrounded values with its 95% interval; p is that of a paired t-test over queries after "
    "Holm's correction over all systems that were compared (in sentences without it), and ▲ and ▼ mark p below 0.05. "
    "Intervals are over queries, with the seed held fixed."
)
# What to try where a simple system is better than what was trained.
CURES = dict.fromkeys((LEXICAL, UNTOUCHED, LOGGED), "`gnn-encoder search --hybrid`") | {
    UNTOUCHED: "a longer encoder.passage_length, more labelled queries, or lower learning rates"
}


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of text, with a note below it.

    The second line of a cell is less important: the report shows it small below the first, Markdown after a comma.
    """

    title: str = ""
    columns: list[str]
    rows: list[list[str]]
    note: str = ""


def markdown(table: Table) -> str:
    """The table in Markdown, with padded columns, all but the first aligned to the right; with its title and note."""
    lines = [[cell.replace("|", "/").replace("\n", ", ") for cell in cells] for cells in [table.columns, *table.rows]]
    widths = [max(3, *map(len, column)) for column in zip(*lines, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]

    def line(cells: list[str]) -> str:
        padded = [cells[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(cells[1:], widths[1:], strict=True))]
        return f"| {' | '.join(padded)} |"

    body = "\n".join(line(cells) for cells in [lines[0], rule, *lines[1:]])
    return "\n\n".join(part for part in (table.title, body, table.note) if part)


def tell(results: Iterable[Table | str]) -> None:
    """Print tables and sentences from a stage."""
    for one in results:
        log.info("\n%s", markdown(one) if isinstance(one, Table) else one)


def points(value: float) -> str:
    """A measure of 0..1 in points of 100."""
    return f"{100 * value:.1f}"


def p_value(p: float) -> str:
    """`p = ...`, with digits that show on which side of 0.05 it is: one below 0.01, two or more below 0.1."""
    if p == 0:
        return "p < 1e-300"  # too small for a float
    if p >= 0.1:
        return f"p = {p:.2f}"
    digits = 1 if p < 0.01 else 2
    while p < SIGNIFICANT <= float(f"{p:.{digits}g}"):
        digits += 1
    return f"p = {p:.{digits}g}"


def difference(found: Comparison) -> str:
    """Mean difference in points with its 95% interval."""
    return f"{100 * found.difference:+.1f} [{100 * found.low:+.1f}, {100 * found.high:+.1f}]"


def comparison(found: Comparison | None, mean: float | None = None) -> str:
    """A cell: a mark if the difference is significant, the mean if there is one, the difference, its p after Holm's."""
    told = [] if mean is None else [points(mean)]
    if found is None:
        return told[0] if told else NOTHING
    mark = "" if found.p_holm >= SIGNIFICANT else f"{BETTER} " if found.difference > 0 else f"{WORSE} "
    return mark + "\n".join([*told, difference(found), p_value(found.p_holm)])


def shortened(text: str, length: int) -> str:
    """A text on one line of a terminal, cut after a whole word."""
    text = without_controls(text)
    return text if len(text) <= length else f"{text[:length].rsplit(' ', 1)[0]} …"


def read_record(path: Path, form: type[Form]) -> Form | None:
    """A JSON file's content, checked as `form`; None if there is no such file."""
    return read_json(path, form) if path.is_file() else None


def are_ours(systems: Collection[str]) -> bool:
    """Whether the figures of these systems are of the data that is prepared now, or came with a clone without any."""
    known = registry().systems
    if not any((project.measured(name) / project.VALUES).is_file() for name in known):
        return True
    return known.keys() >= set(systems) and are_of_prepared(systems)


def are_of_prepared(systems: Iterable[str]) -> bool:
    """Whether systems have been measured, all on the data that are prepared now."""
    values = [project.measured(system) / project.VALUES for system in systems]
    if not all(file.is_file() for file in [*values, project.PASSAGES]):
        return False
    return {pl.read_parquet_metadata(file).get(DATA) for file in values} <= {data_key()}


def data_key() -> str:
    """What tells data from others: the test queries, their judgements, and the ids of the passages that are ranked."""
    test = [path for path in (project.queries("test"), project.qrels("test")) if path.is_file()]
    return fingerprint(*test, pids=read_column(project.PASSAGES, "pid").str.join("\n").item())


def of_other_data(params: Params, system: str) -> str:
    """What to say where the figures of a system are not of the data that params.yaml names; else nothing."""
    if not (project.measured(system) / project.VALUES).is_file():
        return "nothing has run in this clone: these are the committed figures, whatever data params.yaml names"
    if project.is_prepared(params) and are_of_prepared([system]):
        return ""
    return f"these figures are of other data than {params.data.source}, which params.yaml now names: it has not run"


def results_table(branch: str, split: str, means: Means, compared: Comparisons, tested: str) -> Table:
    """A branch's systems, a row each: their means, and the difference in `tested` from the branch's baseline."""
    baseline = registry().branches[branch].baseline
    columns = ["System", *next(iter(means.values())), *([f"{tested} against {title_of(baseline)}"] if compared else [])]
    rows = []
    for system, of in means.items():
        cells = [comparison(compared.get(system))] if compared else []
        rows.append([title_of(system), *map(points, of.values()), *cells])
    title = f"{split.capitalize()} queries: {title_of(branch)}, with what it is compared with, points of 100"
    shown = {one: [*map(points, of.values())] for one, of in means.items()}
    same = [title_of(one) for one in registry().of_kind("reordered") if shown.get(one) == shown.get(CONTROL, [])]
    note = f"Dev chose that these change nothing that is shown: {', '.join(same)}." if same else ""
    return Table(title=title, columns=columns, rows=rows, note=note)


def branch_tables(branch: str, tested: str) -> list[Table]:
    """The tables of a branch's systems and its baseline; empty if it has not been evaluated on the present data."""
    if branch not in registry().branches:
        raise UserError(f"branch is {branch!r}: must be one of {', '.join(registry().branches)}, or all")
    compared = read_record(project.METRICS / branch / "significance.json", dict[str, Comparisons]) or {}
    tables = []
    for split in project.JUDGED:
        means = read_record(project.METRICS / branch / f"{split}.json", Means)
        if means and are_ours(means):
            tables.append(results_table(branch, split, means, compared.get(split, {}), tested))
    return tables


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The claim of the main system. All values are of one measure."""

    measure: str
    best: str  # the best on dev of one vector and no graph
    against: dict[str, dict[str, Comparison]]  # `best`, and the control -> split -> the main system minus it
    better: dict[str, dict[str, Comparison]]  # system above the main one on dev -> split -> it minus the main one
    # Records of earlier versions have neither of these.
    plus: dict[str, Comparison] = field(default_factory=dict)  # split -> `PLUS` minus `best`
    again: dict[str, float] = field(default_factory=dict)  # system -> mean over training queries that are asked again


def best_rival(dev: Mapping[str, float]) -> str:
    """Of the measured systems with one vector a passage and no graph the one with the best mean on dev."""
    return max((one for one in registry().rivals if one in dev), key=lambda one: dev[one])


def claim_of_main(values: pl.DataFrame, measure: str, again: dict[str, float]) -> Claim:
    """The main system against the best on dev that costs as much online and the control, and what is above it."""

    def compared(system: str, other: str) -> dict[str, Comparison]:
        return {split: of[system] for split, of in compare_with(values, measure, {system: other}).items()}

    dev = {system: of[measure] for system, of in means_by_system(values, [measure])["dev"].items()}
    best = best_rival(dev)
    better = [one for one in CURES if one in dev and dev[one] > dev[MAIN]]
    rivals = [best, *({CONTROL} & dev.keys() - {best})]
    return Claim(
        measure=measure,
        best=best,
        against={one: compared(MAIN, one) for one in rivals},
        better={one: compared(one, MAIN) for one in better},
        plus=compared(PLUS, best) if PLUS in dev else {},
        again=again,
    )


def read_claim() -> Claim | None:
    """The claim that `evaluate` wrote; None if it has not."""
    return read_record(project.METRICS / MAIN / "claim.json", Claim) if are_ours([MAIN]) else None


def claim_sentences(claim: Claim) -> list[str]:
    """The main system against the best that costs as much online and the control, on both splits; dev chose these.

    If something has more on dev, further ones say what, and what to try.
    """
    ours, told = title_of(MAIN), []
    for rival, splits in claim.against.items():
        what = (
            "the best on dev of one vector and no graph"
            if rival == claim.best
            else "which trains as long as its phase two"
        )
        told.append(f"{ours}'s {claim.measure} above {title_of(rival)}, {what}: {_compared(splits)}.")
    if claim.plus:
        named = f"{title_of(PLUS)} (--system {PLUS})"
        told.append(f"{named} above {title_of(claim.best)}: {_compared(claim.plus)}.")
    for system, splits in claim.better.items():
        told.append(f"{title_of(system)} has more on dev than {ours} ({_compared(splits)}): try {CURES[system]}.")
    if not (again := claim.again):
        return told
    values = ", ".join(f"{title_of(system)} {points(value)}" for system, value in again.items())
    told.append(f"{claim.measure} of training queries that are asked again: {values}.")
    if again[MAIN] < again[REFERENCE]:
        told.append(f"{WORSE} {ours} has lost what is known: it ranks labelled passages lower; try mgt.labels=false.")
    return told


def _compared(splits: dict[str, Comparison]) -> str:
    return "; ".join(f"{one} {difference(splits[one])}, {p_value(splits[one].p)}" for one in ("test", "dev"))
