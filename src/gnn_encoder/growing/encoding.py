"""Texts that are not among the pipeline's tables, run through the same encoders in the same way."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.matrix import Rows, read_manifest
from gnn_encoder.pipeline.params import Params
from gnn_encoder.text.corpus import embed_passages
from gnn_encoder.text.cross_encoder import CrossEncoder
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.text.inputs import Inputs, encode_rows
from gnn_encoder.text.tokens import TextTokens, with_title

Matrix = NDArray[np.float32]


def check_model(matrix: Path, fingerprint: str, stage: str) -> None:
    """Refuse a model that was trained anew since it made a matrix: new vectors would not be comparable."""
    if read_manifest(matrix).model_fingerprint != fingerprint:
        raise UserError(
            f"{matrix}: another model than the present one made it; run `dvc repro {stage}` and what follows it"
        )


def passage_texts(passages: pl.DataFrame, tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """Passages as models read them. `passages`: columns title, text."""
    return [with_title(title, text, tokenizer) for title, text in passages.select("title", "text").iter_rows()]


def embed_new(encoder: DualEncoder, passages: pl.DataFrame, batch_tokens: int) -> Matrix:
    """E_P of passages. *Shape:* passages (b,), columns title, text -> (b, d)."""
    prefix = encoder.settings.passage_prefix
    texts = [prefix + text for text in passage_texts(passages, encoder.tokenizer)]
    return embed_passages(encoder, TextTokens.of(texts, encoder.tokenizer), batch_tokens, np.arange(len(texts)))


def embed_new_pairs(
    model: CrossEncoder, first: Sequence[str], second: Sequence[str], rows: tuple[Rows, Rows], params: Params
) -> Matrix:
    """M_ce's [CLS] of pairs, rounded as the pipeline stores it. *Shape:* rows (n,) twice -> (n, d_e)."""
    one, other = (TextTokens.of(texts, model.tokenizer) for texts in (first, second))
    length = params.train_cross_encoder.max_length
    pairs = Inputs.pairs(one, rows[0], other, rows[1], model.template, length)
    every = np.arange(len(pairs))
    found = encode_rows(pairs, every, model.embed, params.encoder.batch_tokens, model.dimension)
    return found.astype(np.float16).astype(np.float32)
