"""A table, which the page, the terminal and documents render, and its form as Markdown."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of text.

    The second line of a cell is less important: the page shows it small below the first, Markdown after a comma.

    Attributes:
        note: text below the table.
        left_out: number of rows that are not shown.
    """

    title: str
    columns: list[str]
    rows: list[list[str]]
    note: str = ""
    left_out: int = 0


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


def _escaped(cell: str) -> str:
    return cell.replace("|", "/").replace("\n", ", ")
