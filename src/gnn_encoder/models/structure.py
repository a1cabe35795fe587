"""What a transformer is made of: positions, rows of embeddings, layers; by the names that all of transformers share.

What of it a dual-encoder or a cross-encoder cannot start from is refused.
"""

from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from gnn_encoder.base.errors import UserError
from gnn_encoder.models.batch import Batch, embedding
from gnn_encoder.models.packing import states
from gnn_encoder.models.pretrained import explained

ROUNDING = 1e-3  # most difference of two vectors of length 1 that are the same but for rounding


def check_vocabulary(name: str, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Make sure that the model has an embedding for every token."""
    table: Any = model.get_input_embeddings()
    largest, rows = max(tokenizer.get_vocab().values()), len(table.weight)
    if largest >= rows:
        raise UserError(
            f"model {name!r}: its tokenizer numbers tokens up to {largest}, but it has {rows} embeddings; name files "
            "that belong together, or give the model a row a token (resize_token_embeddings of transformers)"
        )


@torch.no_grad()
def check_padding(name: str, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Make sure that a text has the same vector alone as beside a longer one, where it is padded.

    A convolution over tokens reads padding, say, and then what is measured depends on how texts meet in batches.
    """
    vectors = []
    with explained(name):  # it reads a text for the first time
        for texts in (["a"], ["a", "a " * 8]):
            found, mask = states(model.base_model, Batch.of(tokenizer, texts, length=10))
            vectors.append(embedding(found, mask, pooling="mean", similarity="cosine")[0])
    off = float((vectors[0] - vectors[1]).norm())
    if not off <= ROUNDING:  # also where it is NaN
        raise UserError(
            f"model {name!r}: its vector of a text beside a longer one is another than of the text alone, by {off:.2g} "
            f"of its length where at most {ROUNDING} is rounding, so that it reads padding; take another encoder.model"
        )


def check_letters(name: str, tokenizer: PreTrainedTokenizerBase) -> None:
    """Make sure that the tokenizer reads capitals as small letters, for a model that is to read these alone."""
    if tokenizer.tokenize("A") != tokenizer.tokenize("a"):
        raise UserError(
            f"model {name!r}: its sentence_bert_config.json has do_lower_case, which its tokenizer does not do; give "
            "tokenizer.json a normalizer Lowercase"
        )


def allow_length(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, name: str, tokens: int) -> None:
    """Make sure that the model has a position for each of `tokens` tokens, and that the tokenizer leaves so many.

    Args:
        name: the parameter that sets `tokens`.
    """
    limit = positions(model)
    if limit is not None and tokens > limit:
        raise UserError(f"{name} is {tokens}: the model has {limit} positions; set it to at most {limit}")
    tokenizer.model_max_length = max(tokenizer.model_max_length, tokens)


def freeze_lower(model: nn.Module, layers: int) -> None:
    """Exclude the lowest `layers` layers from training, and what comes before them: the embeddings and what maps them.

    The layers are the first list of as many modules as the configuration counts layers, and parameters are in the order
    in which a text passes them.
    """
    config: Any = model.config
    total = config.num_hidden_layers
    lists = (module for module in model.modules() if isinstance(module, nn.ModuleList))
    stack = next((one for one in lists if len(one) == total), None)
    if stack is None:
        raise UserError(f"encoder.frozen_layers is {layers}: the layers of this model share their weights; set it to 0")
    if layers > total:
        raise UserError(f"encoder.frozen_layers is {layers}: the model has {total} layers; lower it")
    last = list(stack[layers - 1].parameters())[-1]
    for parameter in model.parameters():
        parameter.requires_grad_(False)
        if parameter is last:
            return


def positions(model: PreTrainedModel) -> int | None:
    """The most tokens that the model has positions for; None for relative and rotary ones, which have no limit."""
    table = getattr(getattr(model.base_model, "embeddings", None), "position_embeddings", None)
    if not isinstance(table, nn.Embedding):
        return None
    # RoBERTa numbers positions from padding_idx + 1 on.
    return table.num_embeddings - (0 if table.padding_idx is None else table.padding_idx + 1)
