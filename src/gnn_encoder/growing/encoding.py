"""Texts that are not among the pipeline's tables, run through the same encoders in the same way."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.matrix import Rows, read_manifest
from gnn_encoder.encoding.corpus import embed_passages
from gnn_encoder.encoding.inputs import Inputs
from gnn_encoder.encoding.streaming import encode_rows
from gnn_encoder.encoding.tokens import TextTokens, with_title
from gnn_encoder.models.cross_encoder import CrossEncoder
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.pipeline.params import Params

Matrix = NDArray[np.float32]


def check_model(matrix: Path, fingerprint: str, stage: str) -> None:
    """Refuse a model that was trained anew since it made a matrix: new vectors would not be comparable."""
    if read_manifest(matrix).model_fingerprint != fingerprint:
        raise UserError(
            f"{matrix}: another model than the present one made it; run `dvc repro {stage}` and what follows it"
        )


class TokensInMemory(TextTokens):
    """Tokens of a few texts."""

    def __init__(self, texts: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> None:
        tokenizer._tokenizer.no_truncation()  # calling the tokenizer on texts leaves its settings behind
        tokenizer._tokenizer.no_padding()
        encoded = tokenizer._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        ids = [one.ids[: tokenizer.model_max_length] for one in encoded]
        self.ids = np.array([token for text in ids for token in text], dtype=np.int64)
        self.offsets = np.cumsum([0, *map(len, ids)])


def passage_texts(passages: pl.DataFrame, tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """Passages as models read them. `passages`: columns title, text."""
    return [with_title(title, text, tokenizer) for title, text in passages.select("title", "text").iter_rows()]


def embed_new(encoder: DualEncoder, passages: pl.DataFrame, batch_tokens: int) -> Matrix:
    """E_P of passages. *Shape:* passages (b,), columns title, text -> (b, d)."""
    prefix = encoder.settings.passage_prefix
    texts = [prefix + text for text in passage_texts(passages, encoder.tokenizer)]
    return embed_passages(encoder, TokensInMemory(texts, encoder.tokenizer), batch_tokens, np.arange(len(texts)))


def embed_new_pairs(
    model: CrossEncoder, first: Sequence[str], second: Sequence[str], rows: tuple[Rows, Rows], params: Params
) -> Matrix:
    """M_ce's [CLS] of pairs, rounded as the pipeline stores it. *Shape:* rows (n,) twice -> (n, d_e)."""
    one, other = (TokensInMemory(texts, model.tokenizer) for texts in (first, second))
    length = params.train_cross_encoder.max_length
    pairs = Inputs.pairs(one, rows[0], other, rows[1], model.template, length)
    every = np.arange(len(pairs))
    found = encode_rows(pairs, every, model.embed, params.encoder.batch_tokens, model.dimension)
    return found.astype(np.float16).astype(np.float32)
