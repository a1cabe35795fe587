"""The top passages that a dense system finds for a table of queries."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnn_encoder.core import distributed
from gnn_encoder.encoding.corpus import embed_queries
from gnn_encoder.encoding.texts import open_queries
from gnn_encoder.index.search import top_k_by_factory
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params


def top_passages(
    system: str,
    table: Path,
    k: int,
    params: Params,
    *,
    name: str,
    factory: str = "Flat",
    rows: NDArray[np.integer[Any]] | None = None,
) -> tuple[NDArray[np.integer[Any]], NDArray[np.float32]]:
    """The k best passages of each query: their rows and scores, best first. *Shape:* both (queries, k).

    Args:
        name: the parameter that k comes from, for errors.
        factory: FAISS factory string of `build_graph.factory`; Flat streams over the matrix in constant memory.
        rows: rows of the table whose queries are asked; None: all.
    """
    queries = embed_table(system, table, params, rows)
    distributed.barrier()
    return top_k_by_factory(project.embeddings(system), queries, k, factory, name=name, seed=params.seed)


def embed_table(
    system: str, table: Path, params: Params, rows: NDArray[np.integer[Any]] | None = None
) -> NDArray[np.float32]:
    """The queries of a table, or some rows of them, embedded by the system's encoder. *Shape:* (queries, d)."""
    encoder = DualEncoder.load(project.encoder(system), precision=params.encoder.precision).for_inference()
    return embed_queries(encoder, open_queries(table, encoder), params.encoder.batch_tokens, rows)
