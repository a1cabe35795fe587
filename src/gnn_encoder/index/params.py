"""Sections `bm25`, `index` and `retrieve` of params.yaml."""

from typing import Annotated

from pydantic import Field

from gnn_encoder.core.section import Count, Depth, Rate, Section


class BM25(Section):
    """Lexical retrieval (bm25s, Lucene's formula)."""

    k1: Rate
    b: Annotated[float, Field(ge=0, le=1)]
    depth: Depth  # candidates a training query


class Index(Section):
    """The FAISS index that is searched online."""

    factory: str  # FAISS factory string; Flat is the exact IndexFlatIP


class Retrieve(Section):
    """Depth of the runs."""

    depth: Count
