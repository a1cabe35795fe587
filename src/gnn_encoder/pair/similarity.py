"""The similarity of positives to their queries and to hard negatives (PAIR, section 4.5, Figure 4)."""

import logging
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.answers.matching import Kind
from gnn_encoder.answers.pairs import answered, judged_by_answers
from gnn_encoder.answers.positives import DEPTH
from gnn_encoder.core.judgements import relevant_pairs, with_rows
from gnn_encoder.core.runs import read_run
from gnn_encoder.core.storage.arrays import gather, open_matrix
from gnn_encoder.encoding.corpus import embed_queries
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.opening import open_queries
from gnn_encoder.pipeline.params import Params

log = logging.getLogger(__name__)

Vectors = NDArray[np.floating[Any]]


def similarities(queries: Vectors, positives: Vectors, negatives: Vectors) -> dict[str, float]:
    """Mean and standard deviation of s(p+, q) and s(p+, p-) over triples of a query, a positive and a negative.

    *Shape:* (n, d) each; row i belongs to triple i.
    """
    to_query = np.einsum("nd,nd->n", positives, queries)
    to_negative = np.einsum("nd,nd->n", positives, negatives)
    return {
        "s(p+,q)": float(to_query.mean()),
        "s(p+,q) std": float(to_query.std()),
        "s(p+,p-)": float(to_negative.mean()),
        "s(p+,p-) std": float(to_negative.std()),
    }


def triples(pairs: pl.DataFrame, retrieved: pl.DataFrame) -> pl.DataFrame:
    """Every relevant pair, together with a hard negative: the query's first retrieved passage that is not relevant.

    Args:
        pairs: judged-relevant pairs, columns query, passage.
        retrieved: columns query, passage, rank.

    Returns:
        Columns query, passage, negative; queries without a negative are left out.
    """
    negatives = (
        retrieved.join(pairs, on=["query", "passage"], how="anti")
        .sort("query", "rank")
        .group_by("query", maintain_order=True)
        .agg(pl.col("passage").first().alias("negative"))
    )
    return pairs.join(negatives, on="query").sort("query", "passage")


def measure_similarities(systems: tuple[str, ...], params: Params) -> dict[str, dict[str, float]]:
    """System -> `similarities` of the dev queries. All systems share the hard negatives, which the retriever found."""
    pairs = relevant_pairs(project.queries("dev"), project.POSITIVES, project.PASSAGES)
    chosen = triples(pairs, _negatives(params.evaluate.answers))
    query, positive, negative = (chosen[name].to_numpy().astype(np.int64) for name in ("query", "passage", "negative"))
    found = {}
    for system in systems:
        encoder = DualEncoder.load(project.encoder(system), precision=params.encoder.precision).for_inference()
        tokens = open_queries(project.queries("dev"), encoder)
        queries = embed_queries(encoder, tokens, params.encoder.batch_tokens, query)
        matrix = open_matrix(project.embeddings(system))
        vectors = (gather(matrix, rows).astype(np.float32) for rows in (positive, negative))
        found[system] = similarities(queries, *vectors)
        log.info("%s: %s", system, ", ".join(f"{name} {value:.3f}" for name, value in found[system].items()))
    return found


def _negatives(kind: Kind) -> pl.DataFrame:
    """The first retriever's run of the dev queries, by rows of the tables: columns query, passage, rank.

    In data that are judged by answers, passages that hold an answer are left out.
    """
    queries = project.queries("dev")
    found = read_run(project.run_file("retriever", "dev"))
    if not judged_by_answers(queries):
        return with_rows(found, queries, project.PASSAGES).select("query", "passage", "rank")
    top = found.filter(pl.col("rank") <= DEPTH)
    rows = with_rows(top, queries, project.PASSAGES).select("query", "passage", "rank")
    return rows.join(answered(rows, queries, project.PASSAGES, kind), on=["query", "passage"], how="anti")
