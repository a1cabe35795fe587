"""Sections `bm25`, `index` and `retrieve` of params.yaml."""

from typing import Annotated, Literal

from pydantic import Field

from gnn_encoder.core.section import Count, Depth, Rate, Section

StopWords = Literal[
    "english", "danish", "dutch", "french", "german", "italian", "norwegian", "portuguese", "russian", "spanish",
    "swedish", "turkish",
]  # fmt: skip
Stemmer = Literal[
    "arabic", "danish", "dutch", "english", "finnish", "french", "german", "hungarian", "italian", "norwegian",
    "portuguese", "romanian", "russian", "spanish", "swedish",
]  # fmt: skip


class BM25(Section):
    """Lexical retrieval (bm25s, Lucene's formula)."""

    k1: Rate
    b: Annotated[float, Field(ge=0, le=1)]
    depth: Depth  # candidates a training query
    stop_words: StopWords | None  # the language whose stop words are left out
    stemmer: Stemmer | None  # the language of the Snowball stemmer


class Index(Section):
    """The FAISS index that is searched online."""

    factory: str  # FAISS factory string; Flat is the exact IndexFlatIP


class Retrieve(Section):
    """Depth of the runs."""

    depth: Count
