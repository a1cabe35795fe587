"""Sections `mgt` and `train_no_gnn` of params.yaml."""

from typing import Annotated, Literal

from pydantic import Field

from gnn_encoder.core.section import Count, Gate, Rate, Section

Epochs = Annotated[float, Field(ge=0)]  # the last pass may end early


class Passes(Section):
    """What both phases and the control have. An epoch is a pass over the queries."""

    epochs: Epochs
    batch_size: Annotated[int, Field(ge=2)]
    evaluate_every: Count  # steps
    patience: Count  # evaluations without a better score before training stops


class Phase(Passes):
    """What both phases have."""

    softmax: Literal["batch", "corpus"]  # of the loss: over the batch's passages (Eq. 12), or all


class Alone(Phase):
    """Phase one: the GNN alone on cached embeddings."""

    learning_rate: Rate


class Joint(Phase):
    """Phase two: encoder and GNN together, as in the paper; with a softmax over the corpus, E_Q and GNN."""

    gnn_learning_rate: Rate
    encoder_learning_rate: Rate
    dropout: Annotated[float, Field(ge=0, lt=1)]  # of the encoder
    chunk_size: Count


class MGT(Section):
    """The GNN (section 3.3) and Masked Graph Training (section 3.4, Algorithm 1)."""

    layers: Literal[1, 2]
    heads: Count
    gate: Gate
    edge_features: Literal["cross_encoder", "product", "none"]
    sums: bool  # Eq. 10 also sums up a passage's labelled queries, scaled by their number
    masking: Literal["mgt", "drop_labelled"]
    graph: Literal["full", "self_loops"]
    beta: Annotated[float, Field(gt=0, le=0.5)]  # share of the queries masked in a round: there are two rounds or more
    max_neighbours: Count | None  # most queries a passage keeps, those with the best retrieval scores; null: all
    targets: Literal["labels", "teacher"]  # of both phases, and of the control
    teacher_weight: Annotated[float, Field(gt=0, le=1)]  # as in section distil
    negatives: Annotated[int, Field(ge=0)]
    warmup: Annotated[float, Field(ge=0, le=1)]
    alone: Alone
    joint: Joint


class TrainNoGNN(Passes):
    """The control: M_de trained on without the graph, with what else section `mgt` has for phase two."""

    learning_rate: Rate
