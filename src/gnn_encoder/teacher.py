"""The teacher M_ce's relevance of candidates: what denoising and pseudo-labels are made from."""

from pathlib import Path

import numpy as np
import polars as pl

from gnn_encoder.core.params import Encoder
from gnn_encoder.encoders.cross_encoder import CrossEncoder
from gnn_encoder.encoders.pairs import Pairs, score_pairs
from gnn_encoder.encoders.texts import open_passages, open_queries


def score_candidates(
    candidates: pl.DataFrame, questions: Path, folder: Path, *, model: Path, max_length: int, encoder: Encoder
) -> pl.DataFrame:
    """Add column `score`, in 0..1, to candidates of the table `questions`; resumable in `folder`.

    Args:
        candidates: columns query, passage.
        model: folder of M_ce.
        max_length: tokens of a pair.
        encoder: precision and batch size.
    """
    teacher = CrossEncoder.load(model, precision=encoder.precision).for_inference()
    pairs = Pairs(
        first=open_queries(questions, teacher),
        first_rows=candidates["query"].to_numpy().astype(np.int64),
        second=open_passages(teacher),
        second_rows=candidates["passage"].to_numpy().astype(np.int64),
    )
    scores = score_pairs(teacher, pairs, folder, max_length=max_length, batch_tokens=encoder.batch_tokens)
    return candidates.with_columns(score=scores)
