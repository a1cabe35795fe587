"""A table, which the page, the terminal and documents render; its form as Markdown; and tables of any JSON value."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from gnn_encoder.pipeline.systems import title_of
from gnn_encoder.presenting.formats import NOTHING

LARGEST = 100  # most rows of a table of JSON
VALUES = 12  # most values of a list in one cell


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


def tables_of(value: Any, title: str) -> list[Table]:
    """Tables of a JSON value whose form is not known. The title of each ends in the keys that lead to it.

    A list of objects becomes one table with a row for each object. An object of objects becomes one table with a row
    for each key, if these hold plain values. Values that are nested deeper become tables of their own.
    """
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        return list(_records(title, [("", one) for one in value]))
    if not isinstance(value, dict):
        return [Table(title=title, columns=[""], rows=[[_cell(value)]])]
    plain = {key: one for key, one in value.items() if _is_plain(one)}
    nested = {key: one for key, one in value.items() if key not in plain}
    rows = [[_label(key), _cell(one)] for key, one in plain.items()]
    found = [Table(title=title, columns=["", ""], rows=rows)] if plain else []
    if len(nested) > 1 and all(isinstance(one, dict) and all(map(_is_plain, one.values())) for one in nested.values()):
        return [*found, *_records(title, list(nested.items()))]
    return found + [table for key, one in nested.items() for table in tables_of(one, f"{title}, {_label(key)}")]


def _records(title: str, records: list[tuple[str, dict[str, Any]]]) -> Iterator[Table]:
    keys = list(dict.fromkeys(key for _, one in records for key in one))
    named = any(name for name, _ in records)
    rows = [[_label(name)] * named + [_cell(one.get(key)) for key in keys] for name, one in records[:LARGEST]]
    left_out = len(records) - LARGEST
    note = f"{left_out} more rows are not shown" if left_out > 0 else ""
    yield Table(title=title, columns=[""] * named + [_label(key) for key in keys], rows=rows, note=note)


def _label(key: str) -> str:
    """A JSON key as people read it: the title of a system, or else the key with spaces for underscores."""
    title = title_of(key)
    return key.replace("_", " ") if title == key else title


def _is_plain(value: Any) -> bool:
    nested = value if isinstance(value, list) else [value]
    return not any(isinstance(one, dict | list) for one in nested)


def _cell(value: Any) -> str:
    match value:
        case list():
            shown = ", ".join(map(_cell, value[:VALUES]))
            return shown if len(value) <= VALUES else f"{shown}, … ({len(value)} values)"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.4g}"
        case None:
            return NOTHING
        case _:
            return str(value)


def _escaped(cell: str) -> str:
    return cell.replace("|", "/").replace("\n", ", ")
