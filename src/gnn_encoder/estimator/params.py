"""The parameters of the estimator that no section of params.yaml has."""

from typing import Annotated, Literal

from pydantic import Field

from gnn_encoder.core.section import Count, Depth, Section

NotNegative = Annotated[int, Field(ge=0)]


class Own(Section):
    """What they may be; `GNNEncoder` says what they mean, and holds the defaults."""

    k: Count
    labelled: bool
    similarity: Literal["cosine", "dot"]
    temperature: Annotated[float, Field(gt=0)]
    dev_queries: Count
    dev_whole: NotNegative
    dev_depth: Depth
    seed: NotNegative
