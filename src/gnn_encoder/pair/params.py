"""Section `pair` of params.yaml."""

from typing import Annotated

from pydantic import Field

from gnn_encoder.core.section import Count, Depth, Fraction, Section
from gnn_encoder.training.params import Contrastive, TrainCrossEncoder


class PairStage(Contrastive):
    """One of the two training stages of PAIR."""

    alpha: Annotated[float, Field(ge=0, le=1)]  # weight of the passage-centric loss (PAIR Eq. 6)


class Pair(Section):
    """PAIR: passage-centric similarity, pseudo-labels by M_ce, two stages (PAIR, section 3)."""

    teacher: TrainCrossEncoder | None  # the M_ce that gives pseudo-labels; null: that of train_cross_encoder
    # Of the queries that data.train_queries leaves out, so many have their labels hidden, as a share of all.
    unlabelled_fraction: Annotated[float, Field(ge=0, lt=1)]
    depth: Depth  # candidates a query from the first retriever
    candidates: Count  # how many of these the teacher scores, most of them from the top
    s_pos: Fraction  # pseudo-positives score above
    s_neg: Fraction  # hard negatives score below
    pseudo_labels: bool  # false: both stages on labelled data alone (the paper's w/o KD)
    shared: bool  # one set of weights for queries and passages
    pretrain: PairStage
    finetune: PairStage
