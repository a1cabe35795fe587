"""Section `baselines` of params.yaml."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from gnn_encoder.core.section import Count, Section, Share, Weights

Temperature = Annotated[float, Field(gt=0)]


class Baselines(Section):
    """What the query log and BM25 are worth without training. Of each list the value that is best on dev is taken."""

    dev_queries: Count  # most judged dev queries that choose, a fixed random sample
    query_mean: Weights  # lambda of h_p + lambda * mean of the passage's labelled training queries
    label_prior: Weights  # added to labelled passages, in standard deviations of M_de's scores of a query's passages
    neighbours: Annotated[list[Count], Field(min_length=1)]  # logged queries that are looked up for a query
    neighbour_temperatures: Annotated[list[Temperature], Field(min_length=1)]  # of the softmax over their cosines
    neighbour_weights: Weights  # of what their labelled passages get, in the same unit
    bm25_weights: Annotated[list[Share], Field(min_length=1)]  # BM25's share of the hybrid's score
    reciprocal_ranks: list[Count]  # constants k of 1 / (k + rank), which is tried instead of scores

    @model_validator(mode="after")
    def _doing_nothing_can_win(self) -> Self:
        for name in ("query_mean", "label_prior", "neighbour_weights"):
            if 0 not in getattr(self, name):
                raise ValueError(
                    f"baselines.{name} is {getattr(self, name)}: must hold 0, which leaves M_de as it is; add it"
                )
        return self
