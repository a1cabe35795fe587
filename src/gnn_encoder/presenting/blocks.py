"""Tables of any JSON value, so that the report can show files whose form it does not know."""

from collections.abc import Iterator
from typing import Any

from gnn_encoder.presenting.formats import NOTHING
from gnn_encoder.presenting.names import name_of
from gnn_encoder.presenting.tables import Table

ROWS = 100  # most rows of a table
VALUES = 12  # most values of a list in one cell


def blocks(value: Any, title: str = "") -> list[Table]:
    """Tables of a JSON value. The title of each consists of the keys that lead to it.

    A list of objects becomes one table with a row for each object. An object of objects becomes one table with a row
    for each key, if these hold plain values. Values that are nested deeper become tables of their own.
    """
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        return list(_records(title, [("", one) for one in value]))
    if not isinstance(value, dict):
        return [_table(title, [""], [[_cell(value)]])]
    plain = {key: one for key, one in value.items() if _is_plain(one)}
    nested = {key: one for key, one in value.items() if key not in plain}
    found = [_table(title, ["", ""], [[label(key), _cell(one)] for key, one in plain.items()])] if plain else []
    if len(nested) > 1 and all(isinstance(one, dict) and all(map(_is_plain, one.values())) for one in nested.values()):
        return [*found, *_records(title, list(nested.items()))]
    return found + [
        table for key, one in nested.items() for table in blocks(one, f"{title}, {label(key)}" if title else label(key))
    ]


def label(key: str) -> str:
    """A JSON key as people read it: the title of a system or branch, or else the key with spaces for underscores."""
    name = name_of(key)
    return key.replace("_", " ") if name == key else name


def _records(title: str, records: list[tuple[str, dict[str, Any]]]) -> Iterator[Table]:
    keys = list(dict.fromkeys(key for _, one in records for key in one))
    named = any(name for name, _ in records)
    rows = [[label(name)] * named + [_cell(one.get(key)) for key in keys] for name, one in records]
    yield _table(title, [""] * named + [label(key) for key in keys], rows)


def _table(title: str, columns: list[str], rows: list[list[str]]) -> Table:
    return Table(title=title, columns=columns, rows=rows[:ROWS], left_out=max(0, len(rows) - ROWS))


def _is_plain(value: Any) -> bool:
    return not isinstance(value, dict | list) or (isinstance(value, list) and not any(map(_is_nested, value)))


def _is_nested(value: Any) -> bool:
    return isinstance(value, dict | list)


def _cell(value: Any) -> str:
    if isinstance(value, list):
        shown = ", ".join(_cell(one) for one in value[:VALUES])
        return shown if len(value) <= VALUES else f"{shown}, … ({len(value)} values)"
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_cell(one)}" for key, one in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return NOTHING if value is None else str(value)
