"""A section of the report: figures, tables, and notes on what has not been made."""

from dataclasses import dataclass, field

from markupsafe import Markup

from gnn_encoder.presenting.artifacts import Missing
from gnn_encoder.presenting.tables import Table


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Pictures with one caption below them."""

    caption: str
    pictures: list[Markup]


@dataclass(kw_only=True)
class Section:
    """The content under one heading."""

    figures: list[Figure] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)

    def show(self, caption: str, *pictures: Markup) -> None:
        """Add a figure, unless there are no pictures."""
        if pictures:
            self.figures.append(Figure(caption=caption, pictures=list(pictures)))

    def miss(self, what: str, command: str) -> None:
        """Add a note on what has not been made, and the command that makes it."""
        self.missing.append(Missing(what=what, command=command))
