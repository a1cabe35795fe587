"""A section of the report: pictures, tables, and what has not been made."""

from dataclasses import dataclass, field

from markupsafe import Markup

from gnn_encoder.report.artifacts import Missing
from gnn_encoder.report.blocks import Block


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Pictures with what stands below them."""

    caption: str
    pictures: list[Markup]


@dataclass(kw_only=True)
class Section:
    """What stands under one heading."""

    figures: list[Figure] = field(default_factory=list)
    tables: list[Block] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)

    def show(self, caption: str, *pictures: Markup | None) -> None:
        """Add pictures; those that could not be drawn are None."""
        drawn = [picture for picture in pictures if picture is not None]
        if drawn:
            self.figures.append(Figure(caption=caption, pictures=drawn))

    def miss(self, what: str, command: str) -> None:
        """Add a line about what has not been made."""
        self.missing.append(Missing(what=what, command=command))
