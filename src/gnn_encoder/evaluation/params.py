"""Sections `rerank` and `evaluate` of params.yaml."""

from typing import Annotated, Literal

from pydantic import Field

from gnn_encoder.core.section import Count, Section


class Rerank(Section):
    """The ceiling: M_de's top passages reordered by a cross-encoder."""

    depth: Count  # passages of M_de's run that are reordered; those below keep their order
    queries: Count | None  # a random sample of each split; null: all


class Evaluate(Section):
    """Measures in ir-measures' names."""

    measures: Annotated[list[str], Field(min_length=1)]
    significance: str  # the measure of the paired test
    answers: Literal["string", "regex"]  # how the answers of a split that is judged by answers are written
    by: Literal["passage", "document"] = "passage"  # what is ranked and judged, where texts are cut into passages
