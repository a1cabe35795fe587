"""What the teacher's score is made of: M_ce's logits of candidates, and the retriever's scores."""

from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.core.storage.arrays import gather, open_matrix
from gnn_encoder.encoding.corpus import embed_queries
from gnn_encoder.encoding.pairs import Pairs, score_pairs
from gnn_encoder.encoding.texts import open_passages, open_queries
from gnn_encoder.models.cross_encoder import CrossEncoder
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.models.params import Encoder
from gnn_encoder.pipeline import project

AT_A_TIME = 8_192  # candidates whose embeddings are in memory together


def cross_encoder_logits(
    candidates: pl.DataFrame, queries: Path, folder: Path, *, model: Path, max_length: int, encoder: Encoder
) -> NDArray[np.float32]:
    """M_ce's logits of candidates. *Shape:* (candidates,).

    Args:
        candidates: columns query, passage; rows of the table `queries` and of the passages.
        folder: scratch folder; windows that an interrupted run scored are kept there.
        model: folder of M_ce.
        max_length: most tokens of a pair.
        encoder: precision and batch size.
    """
    teacher = CrossEncoder.load(model, precision=encoder.precision).for_inference()
    pairs = Pairs(
        first=open_queries(queries, teacher),
        first_rows=candidates["query"].to_numpy().astype(np.int64),
        second=open_passages(teacher),
        second_rows=candidates["passage"].to_numpy().astype(np.int64),
    )
    return score_pairs(teacher, pairs, folder, max_length=max_length, batch_tokens=encoder.batch_tokens)


def retriever_scores(
    candidates: pl.DataFrame, queries: Path, encoder: Encoder, *, system: str = "retriever"
) -> NDArray[np.float32]:
    """The dot products by which a dual-encoder ranks candidates. *Shape:* (candidates,).

    Args:
        candidates: columns query, passage.
        system: one with a passage matrix.
    """
    model = DualEncoder.load(project.encoder(system), precision=encoder.precision).for_inference()
    asked, place = np.unique(candidates["query"].to_numpy().astype(np.int64), return_inverse=True)
    embedded = embed_queries(model, open_queries(queries, model), encoder.batch_tokens, asked)
    matrix, passages = open_matrix(project.embeddings(system)), candidates["passage"].to_numpy()
    found = np.empty(len(candidates), dtype=np.float32)
    for first in range(0, len(found), AT_A_TIME):
        part = slice(first, first + AT_A_TIME)
        found[part] = np.einsum("nd,nd->n", embedded[place[part]], gather(matrix, passages[part]).astype(np.float32))
    return found
