"""Tables that the terminal, the report and documents show, what they are read from, and how numbers are written."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from gnn_encoder.base.errors import UserError, without_controls
from gnn_encoder.base.files import Form, read_json
from gnn_encoder.evaluate.measures import Means
from gnn_encoder.evaluate.significance import Comparison, Comparisons
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.project import registry, title_of

SIGNIFICANT = 0.05
NOTHING = "–"  # where there is no number
BETTER, WORSE = "▲", "▼"  # the report colours cells that begin with one of them
HOW_TO_READ = (
    "A difference is a mean of unrounded values with its 95% interval; p is that of a paired t-test over queries after "
    "Holm's correction over all systems that were compared, and ▲ and ▼ mark p below 0.05. Intervals are over queries, "
    "with the seed held fixed."
)
WEIGHTS = (
    "Weights are lambda of the mean of labelled queries, standard deviations of M_de's scores of one query's passages "
    "for logged queries, and BM25's share of the hybrid"
)


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of text.

    The second line of a cell is less important: the report shows it small below the first, Markdown after a comma.

    Attributes:
        note: text below the table.
    """

    title: str
    columns: list[str]
    rows: list[list[str]]
    note: str = ""


def markdown(table: Table) -> str:
    """The table in Markdown, with padded columns, all but the first aligned to the right; without title and note."""
    columns, *rows = ([_escaped(cell) for cell in cells] for cells in [table.columns, *table.rows])
    widths = [max(3, *map(len, column)) for column in zip(columns, *rows, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]

    def line(cells: list[str]) -> str:
        padded = [cells[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(cells[1:], widths[1:], strict=True))]
        return f"| {' | '.join(padded)} |"

    return "\n".join(line(cells) for cells in [columns, rule, *rows])


def titled(table: Table) -> str:
    """The table in Markdown with its title and note, for the terminal and for documents."""
    return "\n\n".join(part for part in (table.title, markdown(table), table.note) if part)


def log_tables(tables: Iterable[Table]) -> None:
    """Print tables from a stage."""
    for table in tables:
        logging.getLogger(__name__).info("\n%s", titled(table))


def results_table(branch: str, split: str, means: Means, compared: Comparisons, tested: str) -> Table:
    """A branch's systems, a row each: their means, and the difference in `tested` from the branch's baseline."""
    baseline = registry().branches[branch].baseline
    columns = ["System", *next(iter(means.values())), *([f"{tested} against {title_of(baseline)}"] if compared else [])]
    rows = []
    for system, of in means.items():
        cells = [comparison(compared.get(system))] if compared else []
        rows.append([title_of(system), *map(points, of.values()), *cells])
    title = f"{split.capitalize()} queries: {title_of(branch)}, with what it is compared with, points of 100"
    return Table(title=title, columns=columns, rows=rows)


def judged_table(means: dict[str, dict[str, float]], compared: Comparisons) -> Table:
    """What `gnn-encoder evaluate` prints: one row per measure, in 0..1, and the comparison with a second run.

    Args:
        means: `value` of the run and, if there is a second one, `against` -> measure -> mean.
        compared: measure -> comparison with the second run; empty if there is none.
    """
    columns = ["measure", "run", *(["against", "difference", "95% interval", "p", "p (Holm)"] if compared else [])]
    rows = [[name, f"{value:.4f}"] for name, value in means["value"].items()]
    for row, c in zip(rows, compared.values(), strict=False):
        ends = f"{c.low:+.4f} to {c.high:+.4f}"
        row += [f"{means['against'][row[0]]:.4f}", f"{c.difference:+.4f}", ends, p_value(c.p), p_value(c.p_holm)]
    return Table(title="", columns=columns, rows=rows)


def choices_table(choices: dict[str, dict[str, Any]]) -> Table:
    """What the systems without training chose on dev: setting, value, and the range of all values.

    Args:
        choices: system -> its `choice.json`.
    """
    first = next(iter(choices.values()))
    columns = ["System", "chosen", f"dev {first['measure']}", "all that were tried"]
    rows = []
    for name, one in choices.items():
        values, setting = [tried["value"] for tried in one["tried"]], one["chosen"]["setting"]
        told = ", ".join(f"{key.replace('_', ' ')} {_cell(value)}" for key, value in setting.items())
        spread = f"{len(values)}: {points(min(values))} to {points(max(values))}"
        rows.append([title_of(name), told, points(one["chosen"]["value"]), spread])
    title = f"Chosen on {count(first['queries'])} dev queries, points of 100"
    return Table(title=title, columns=columns, rows=rows, note=WEIGHTS)


def read_record(path: Path, form: type[Form]) -> Form | None:
    """A JSON file's content, checked as `form`; None if there is no such file."""
    return read_json(path, form) if path.is_file() else None


def read_choices() -> dict[str, dict[str, Any]]:
    """System -> what it chose on dev, for the systems without training that have been made."""
    places = {name: project.embeddings(name) for name in registry().of_kind("shifted")}
    places |= {name: project.RUNS / name for name in registry().of_kind("reordered", "fused")}
    found = {name: read_record(place / "choice.json", dict[str, Any]) for name, place in places.items()}
    return {name: one for name, one in found.items() if one is not None}


def branch_tables(branch: str, tested: str, splits: tuple[str, ...] = ("test", "dev")) -> list[Table]:
    """The tables of a branch's systems and its baseline; empty if it has not been evaluated on the present data."""
    if branch not in registry().branches:
        raise UserError(f"branch is {branch!r}: must be one of {', '.join(registry().branches)}, or all")
    compared = read_record(project.METRICS / branch / "significance.json", dict[str, Comparisons]) or {}
    tables = []
    for split in splits:
        means = read_record(project.METRICS / branch / f"{split}.json", Means)
        if means and are_ours(means):
            tables.append(results_table(branch, split, means, compared.get(split, {}), tested))
    return tables


def are_ours(systems: Iterable[str]) -> bool:
    """Whether the figures of these systems are of the data that is prepared now.

    Where nothing was measured in this clone, those that came with it count. Else they may be of other data.
    """
    known = registry().systems
    if not any((project.measured(name) / project.VALUES).is_file() for name in known):
        return True
    return all(name in known and is_of_prepared(name) for name in systems)


def is_of_prepared(system: str) -> bool:
    """Whether a system has been measured, and on the test queries that are prepared now."""
    values = project.measured(system) / project.VALUES
    if not values.is_file() or not project.queries("test").is_file():
        return False
    judged = pl.scan_parquet(values).filter(pl.col("split") == "test")
    others = judged.join(pl.scan_parquet(project.queries("test")), on="qid", how="anti")
    return others.head(1).collect().is_empty()


def table_of(value: dict[str, Any], title: str) -> Table:
    """A JSON object whose form is not known: one row per value, or object of plain values, named by its keys."""
    rows = [[", ".join(keys), _cell(one)] for keys, one in _leaves(value)]
    return Table(title=title, columns=["", ""], rows=rows)


def points(value: float) -> str:
    """A measure of 0..1 in points of 100."""
    return f"{100 * value:.1f}"


def p_value(p: float) -> str:
    """A p-value with as many digits as show on which side of 0.05 it is: one below 0.01, two or more below 0.1."""
    if p == 0:
        return "< 1e-300"  # too small for a float
    if p >= 0.1:
        return f"{p:.2f}"
    digits = 1 if p < 0.01 else 2
    while p < SIGNIFICANT <= float(f"{p:.{digits}g}"):
        digits += 1
    return f"{p:.{digits}g}"


def difference(found: Comparison) -> str:
    """Mean difference in points with its 95% interval."""
    return f"{100 * found.difference:+.1f} [{100 * found.low:+.1f}, {100 * found.high:+.1f}]"


def comparison(found: Comparison | None) -> str:
    """Two lines, the difference and its p after Holm's correction, with a mark if it is significant."""
    if found is None:
        return NOTHING
    mark = "" if found.p_holm >= SIGNIFICANT else f"{BETTER} " if found.difference > 0 else f"{WORSE} "
    p = f"p = {p_value(found.p_holm)}".replace("= <", "<")
    return f"{mark}{difference(found)}\n{p}"


def count(number: int) -> str:
    """A number with separated thousands."""
    return f"{number:,}"


def shortened(text: str, length: int) -> str:
    """A text on one line of a terminal, cut after a whole word."""
    text = without_controls(text)
    return text if len(text) <= length else f"{text[:length].rsplit(' ', 1)[0]} …"


def _leaves(value: Any, *keys: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """What is inside objects and lists that hold others, with the keys that lead to it; lists count from 1."""
    if isinstance(value, list):
        value = {str(number): one for number, one in enumerate(value, 1)}
    if keys and not (isinstance(value, dict) and any(isinstance(one, dict | list) for one in value.values())):
        yield keys, value
        return
    for key, one in value.items():
        yield from _leaves(one, *keys, _label(key))


def _label(key: str) -> str:
    """A JSON key as people read it: the title of a system, or else the key with spaces for underscores."""
    title = title_of(key)
    return key.replace("_", " ") if title == key else title


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{_label(key)} {_cell(one)}" for key, one in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return NOTHING if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _escaped(cell: str) -> str:
    return cell.replace("|", "/").replace("\n", ", ")
