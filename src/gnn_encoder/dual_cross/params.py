"""Section `dual_cross` of params.yaml."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from gnn_encoder.core.section import Count, Epochs, Fraction, PoolKind, Rate, Section, Share
from gnn_encoder.training.params import Contrastive


class Generator(Section):
    """The query generation model P_QG(q|d) (Dual-Cross-Encoder, section 3.4)."""

    model: str | None  # a seq2seq model, used as it is; null: an encoder-decoder from encoder.model, trained here
    revision: str | None
    file: str | None = None  # of queries that were generated already: data/generated.py; null: a model generates them
    epochs: Epochs
    batch_size: Annotated[int, Field(ge=2)]  # pairs of a passage and its query
    learning_rate: Rate
    warmup: Annotated[float, Field(ge=0, le=1)]
    passage_length: Annotated[int, Field(ge=4)]  # tokens, special ones included
    query_length: Annotated[int, Field(ge=4)]

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if self.file and self.model:
            raise ValueError(
                f"dual_cross.generator.file is {self.file!r} and dual_cross.generator.model {self.model!r}: "
                "one of them must be null"
            )
        return self


class DualCrossStage(Contrastive):
    """One of the two training stages of Dual-Cross-Encoder and of its DPR baseline."""

    # Of the passages that Dual-Cross-Encoder reads in training, so many are read alone, the others beside a query.
    plain_share: Share


class DualCross(Section):
    """Dual-Cross-Encoder: passages encoded together with generated queries, several views a passage."""

    generator: Generator
    generated: Annotated[int, Field(ge=1, le=127)]  # queries that are generated a passage
    views: Annotated[int, Field(ge=1, le=127)]  # of these, the ones that are nearest to it are kept
    plain_view: bool  # the passage read alone is a view too, the first
    pool: PoolKind  # what a passage's score is, of its views' scores
    plain_weight: Fraction | None  # of the plain view in the mean; null: as that of any other
    queries: Count | None  # how many generated queries, drawn at random, are used for pre-training; null: all
    top_k: Count  # tokens that sampling chooses from
    max_length: Annotated[int, Field(ge=8)]  # tokens of a query and its passage
    # The query that a passage is encoded with in training: the one of the example (Eq. 8), or one generated for the
    # passage, as in the index.
    beside: Literal["asked", "generated"]
    shared: bool  # one set of weights for queries and passages ("tied")
    # Labelled queries with their hard negatives: those that M_de trains on, or BM25's (section 3.5).
    examples: Literal["denoised", "bm25"] = "denoised"
    pretrain: DualCrossStage  # on generated queries
    finetune: DualCrossStage  # on `examples`

    @model_validator(mode="after")
    def _kept_of_generated(self) -> Self:
        if self.views > self.generated:
            raise ValueError(
                f"dual_cross.views is {self.views}: must be at most dual_cross.generated, {self.generated}"
            )
        return self

    @property
    def vectors(self) -> int:
        """Views of a passage, the plain one included."""
        return self.views + self.plain_view
