"""Sections `build_graph` and `encode_corpus` of params.yaml."""

from typing import Annotated

from pydantic import Field

from gnn_encoder.core.section import Count, Depth, Section


class BuildGraph(Section):
    """The query-passage graph (section 3.2)."""

    unlabelled: (
        Annotated[int, Field(ge=0)] | None
    )  # how many queries without labels, at random, become nodes; null: all
    generated: Count | None  # how many generated queries, drawn at random, become nodes, if any do; null: all
    k: Depth  # passages a query
    labelled: bool  # a training query's labelled passages are among its k, first; attention tells their edges apart


class EncodeCorpus(Section):
    """Query-interactive passage embeddings of the whole corpus."""

    labelled_edges: bool  # false: a query does not inform the passages it is labelled with
