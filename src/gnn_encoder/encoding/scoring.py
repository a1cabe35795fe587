"""M_ce's relevance scores of candidates, which denoising, pseudo-labelling and reranking use."""

from pathlib import Path

import numpy as np
import polars as pl

from gnn_encoder.core.params import Encoder
from gnn_encoder.encoding.pairs import Pairs, score_pairs
from gnn_encoder.encoding.texts import open_passages, open_queries
from gnn_encoder.models.cross_encoder import CrossEncoder


def score_candidates(
    candidates: pl.DataFrame, queries: Path, folder: Path, *, model: Path, max_length: int, encoder: Encoder
) -> pl.DataFrame:
    """Add the column `score`, M_ce's relevance in 0..1, to candidates.

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
    scores = score_pairs(teacher, pairs, folder, max_length=max_length, batch_tokens=encoder.batch_tokens)
    return candidates.with_columns(score=scores)
