"""The project's texts as tokens: long enough for every model of the experiment, so that they are made once."""

from gnn_encoder import project
from gnn_encoder.encoders.cross_encoder import CrossEncoder
from gnn_encoder.encoders.dual_encoder import DualEncoder
from gnn_encoder.encoders.tokens import TextTokens, open_tokens
from gnn_encoder.params import Params


def open_queries(split: str, model: DualEncoder | CrossEncoder, params: Params) -> TextTokens:
    """Tokens of a split's questions."""
    return open_tokens(project.queries(split), model.tokenizer, _longest(params))


def open_generated(model: DualEncoder | CrossEncoder, params: Params) -> TextTokens:
    """Tokens of the generated questions."""
    return open_tokens(project.GENERATED / "questions.parquet", model.tokenizer, _longest(params))


def open_passages(model: DualEncoder | CrossEncoder, params: Params) -> TextTokens:
    """Tokens of the passages."""
    return open_tokens(project.PASSAGES, model.tokenizer, _longest(params))


def _longest(params: Params) -> int:
    """No stage declares what only this reads: tokens beyond a model's own length are cut, and change no result."""
    return max(
        params.encoder.passage_length,
        params.encoder.query_length,
        params.train_cross_encoder.max_length,
        params.dual_cross.max_length,
    )
