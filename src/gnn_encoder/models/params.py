"""Sections `encoder`, `untouched` and `cache_passages` of params.yaml."""

from typing import Annotated, Literal

from pydantic import Field

from gnn_encoder.core.section import Count, Section


class Encoder(Section):
    """The dual-encoder: what it starts from and how a text becomes a vector."""

    model: str  # hub name, folder, or package:NAME/FOLDER
    revision: str | None
    trust_remote_code: bool
    # Of these four, null is what the model's own files state: models/stated.py.
    pooling: Literal["cls", "mean", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"] | None
    similarity: Literal["dot", "cosine"] | None
    query_prefix: str | None = None  # put before every query that a dual-encoder reads; counts towards its length
    passage_prefix: str | None = None  # put before every passage, before its title
    temperature: Annotated[float, Field(gt=0)] | None  # scores are divided by it; null: 0.05 with cosine, 1 with dot
    shared: bool  # one set of weights for queries and passages
    query_length: Annotated[int, Field(ge=4)]  # tokens, special ones included
    passage_length: Annotated[int, Field(ge=4)]
    dropout: Annotated[float, Field(ge=0, lt=1)]
    frozen_layers: Annotated[int, Field(ge=0)]  # embeddings and this many lower layers are not trained
    precision: Literal["auto", "bf16", "fp32"]
    batch_tokens: Count  # padded tokens of one inference batch


class Untouched(Section):
    """The base model as it comes: the most tokens that it reads, special ones included; null: all it can."""

    query_length: Annotated[int, Field(ge=4)] | None
    passage_length: Annotated[int, Field(ge=4)] | None


class CachePassages(Section):
    """Passage embeddings on disk."""

    dtype: Literal["float16", "float32"]
