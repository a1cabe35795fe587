"""A table, which the page, the terminal and documents render; its form as Markdown; and a table of any JSON value."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from gnn_encoder.pipeline.project import title_of
from gnn_encoder.presenting.formats import NOTHING


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of text.

    The second line of a cell is less important: the page shows it small below the first, Markdown after a comma.

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


def table_of(value: dict[str, Any], title: str) -> Table:
    """A JSON object whose form is not known: one row per value, or object of plain values, named by its keys."""
    rows = [[", ".join(keys), _cell(one)] for keys, one in _leaves(value)]
    return Table(title=title, columns=["", ""], rows=rows)


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
