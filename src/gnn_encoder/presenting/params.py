"""Section `report` of params.yaml."""

from typing import Annotated

from pydantic import Field

from gnn_encoder.core.section import Section


class Report(Section):
    """How much the report's view of single queries shows."""

    queries: Annotated[int, Field(ge=1, le=50)]  # of two systems: so many that gain most, so many that lose most
    passages: Annotated[int, Field(ge=1, le=20)]  # shown for each system, best first
