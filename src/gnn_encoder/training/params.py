"""Sections of params.yaml that train and denoise: from `dev` to `distil`."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from gnn_encoder.core.section import Count, Depth, Epochs, Fraction, Rate, Section


class Dev(Section):
    """The dev score of every training of an encoder, by which it keeps its best weights."""

    queries: Count  # dev queries, a fixed random sample
    depth: Depth  # passages that each of them adds to the pool; the systems that make it share them
    passages: Annotated[int, Field(ge=0)]  # a corpus of at most so many is ranked whole
    cached_passages: Annotated[int, Field(ge=0)]  # the same where embeddings are read from a cache: MGT's phase one
    cached_queries: Count  # dev queries that rank such a corpus there
    evaluations: Annotated[int, Field(ge=2)]  # spread evenly over a training, start and end included


class Contrastive(Section):
    """Training a dual-encoder by Eq. 2."""

    epochs: Annotated[float, Field(ge=0)]  # 0: it stays as it is
    batch_size: Annotated[int, Field(ge=2)]  # queries, over all devices
    negatives: Annotated[int, Field(ge=0)]  # hard negatives a query
    learning_rate: Rate
    warmup: Annotated[float, Field(ge=0, le=1)]  # share of the steps in which the learning rate rises
    chunk_size: Count  # passages, or queries of as many tokens, encoded at a time with gradients: GradCache


class Distil(Contrastive):
    """Training M_de on by the teacher's soft targets as well."""

    targets: Literal["labels", "teacher"]  # labels: the same steps by Eq. 2 alone
    teacher_weight: Annotated[float, Field(gt=0, le=1)]  # of the loss that soft targets give


class TrainDualEncoder(Contrastive):
    """Training M_de; it starts from the base model as in RocketQA, or from the first retriever."""

    init: Literal["base", "retriever"]


class MineCandidates(Section):
    """How many passages of the first retriever M_ce may see for each query."""

    depth: Depth


class TrainCrossEncoder(Section):
    """Training M_ce: labelled positives against candidates of the first retriever."""

    model: str | None  # null: encoder.model
    max_length: Annotated[int, Field(ge=8)]  # tokens of a pair
    epochs: Epochs
    batch_size: Annotated[int, Field(ge=2)]  # queries
    negatives: Count  # candidates a query
    learning_rate: Rate
    warmup: Annotated[float, Field(ge=0, le=1)]
    pooling: Literal["cls", "mean"] = "cls"  # what the head reads: the [CLS] state, or the mean of all states
    loss: Literal["pointwise", "listwise"] = "pointwise"  # each pair by itself, or a query's passages together
    range_min: Annotated[int, Field(ge=0)] = 0  # first rank of the mined candidates that negatives come from
    range_max: Count | None = None  # the rank after the last one; null: all that were mined

    @model_validator(mode="after")
    def _negatives_come_from_somewhere(self) -> Self:
        if self.range_max is not None and self.range_min >= self.range_max:
            raise ValueError(f"range_min is {self.range_min}: must be below range_max, {self.range_max}")
        return self


class TeacherScore(Section):
    """What the score is that denoising, pseudo-labels and reranking go by."""

    score: Literal["cross_encoder", "sum"]  # M_ce's as it was trained; or with the retriever's, fitted on dev


class Denoise(Section):
    """Which candidates M_ce calls positives and negatives."""

    # Training queries whose candidates are scored, a random sample, which M_de trains on. The others have no hard
    # negatives. null: all.
    queries: Count | None = None
    range_min: Annotated[int, Field(ge=0)]  # first rank of the mined candidates that are considered; 0 is the best
    range_max: Count  # the rank after the last one that is considered
    candidates: Count  # candidates that are scored for each query, most of them from the first of these ranks
    positive_threshold: Fraction
    negative_threshold: Fraction
    # Negatives score below this share of what their query's best labelled passage scores, and not above
    # positive_threshold; null: below negative_threshold.
    relative: Annotated[float, Field(gt=0, le=1)] | None = None
