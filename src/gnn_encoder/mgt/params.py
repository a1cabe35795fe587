"""Sections `mgt` and `train_no_gnn` of params.yaml."""

from typing import Annotated, Literal

from pydantic import Field

from gnn_encoder.core.section import Count, Gate, Rate, Section


class MGT(Section):
    """The GNN (section 3.3) and Masked Graph Training (section 3.4, Algorithm 1)."""

    layers: Literal[1, 2]
    heads: Count
    gate: Gate
    edge_features: Literal["cross_encoder", "product", "none"]
    masking: Literal["mgt", "drop_labelled"]
    graph: Literal["full", "self_loops"]
    beta: Annotated[float, Field(gt=0, le=0.5)]  # share of the queries masked in a round: there are two rounds or more
    max_neighbours: Count | None  # most queries a passage keeps, those with the best retrieval scores; null: all
    gnn_epochs: Annotated[int, Field(ge=0)]  # phase one: the GNN alone on cached embeddings
    epochs: Annotated[int, Field(ge=0)]  # phase two: encoder and GNN together
    sums: bool = False  # Eq. 10 also sums up a passage's labelled queries, scaled by their number
    softmax: Literal["batch", "corpus"] = "batch"  # of phase one's loss: over the batch's passages (Eq. 12), or all
    targets: Literal["labels", "teacher"] = "labels"  # of both phases, and of the control
    teacher_weight: Annotated[float, Field(gt=0, le=1)] = 0.7  # as in section distil
    batch_size: Annotated[int, Field(ge=2)]
    negatives: Annotated[int, Field(ge=0)]
    gnn_learning_rate: Rate  # phase one
    joint_gnn_learning_rate: Rate  # phase two
    encoder_learning_rate: Rate  # phase two
    dropout: Annotated[float, Field(ge=0, lt=1)]  # of the encoder, in phase two and in the control
    warmup: Annotated[float, Field(ge=0, le=1)]
    chunk_size: Count
    evaluate_every: Count  # steps
    patience: Count  # evaluations without a better score before training stops


class TrainNoGNN(Section):
    """The control: M_de trained on with GNN-encoder's batches, without the graph."""

    learning_rate: Rate
