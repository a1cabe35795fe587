"""The project's texts as tokens: long enough for every model of the experiment, so that they are made once."""

from typing import Protocol

from transformers import PreTrainedTokenizerBase

from gnn_encoder import project
from gnn_encoder.encoders.tokens import TextTokens, open_tokens
from gnn_encoder.params import Params


class Reader(Protocol):
    """A model that reads texts: dual-encoder, cross-encoder, question generator."""

    tokenizer: PreTrainedTokenizerBase


def open_queries(split: str, model: Reader, params: Params) -> TextTokens:
    """Tokens of a split's questions."""
    return open_tokens(project.queries(split), model.tokenizer, _longest(params))


def open_passages(model: Reader, params: Params) -> TextTokens:
    """Tokens of the passages."""
    return open_tokens(project.PASSAGES, model.tokenizer, _longest(params))


def _longest(params: Params) -> int:
    encoder, generator = params.encoder, params.dual_cross.generator
    return max(
        *(encoder.passage_length, encoder.query_length, params.train_cross_encoder.max_length),
        *(generator.passage_length, generator.query_length),
    )
