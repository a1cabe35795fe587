"""Training labels and queries as a dual-encoder embeds them."""

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.core.judgements import relevant_pairs
from gnn_encoder.core.rows import Matrix
from gnn_encoder.encoding.corpus import embed_queries
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.opening import open_queries
from gnn_encoder.pipeline.params import Params


def embedded(encoder: DualEncoder, split: str, params: Params, rows: NDArray[np.integer[Any]] | None = None) -> Matrix:
    """E_Q of some rows of a split's queries; None: of all. *Shape:* (n, d)."""
    return embed_queries(encoder, open_queries(project.queries(split), encoder), params.encoder.batch_tokens, rows)


def labelled_queries(encoder: DualEncoder, params: Params) -> tuple[pl.DataFrame, Matrix]:
    """The training queries that have a label: their labels and embeddings.

    Returns:
        Columns query, a row of the matrix, and passage; the matrix. *Shape:* (n, d).
    """
    pairs = relevant_pairs(project.queries("train"), project.qrels("train"), project.PASSAGES)
    rows, places = np.unique(pairs["query"].to_numpy(), return_inverse=True)
    return pairs.with_columns(query=pl.Series(places)), embedded(encoder, "train", params, rows)
