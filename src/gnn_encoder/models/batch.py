"""A transformer's input, padded token ids and special tokens, and its output, pooled to one vector a text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from gnn_encoder.base.errors import UserError
from gnn_encoder.models.device import send

Length = TypeVar("Length", int, NDArray[np.int64])


def padded(length: Length) -> Length:
    """`length` rounded up to a multiple of 8, so that batches have few shapes and kernels are built once for each."""
    return -(-length // 8) * 8


@dataclass(frozen=True)
class Batch:
    """Padded token ids of n texts. *Shape:* each field (n, tokens)."""

    input_ids: Tensor
    attention_mask: Tensor
    token_type_ids: Tensor

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase, *columns: Sequence[str], length: int) -> Self:
        """Texts, or pairs of texts, cut to `length` tokens."""
        rows = (list(column) for column in columns)
        found = tokenizer(*rows, truncation=True, max_length=length, padding=True, return_tensors="pt")
        ids = found["input_ids"]
        return cls(ids, found["attention_mask"], found.get("token_type_ids", torch.zeros_like(ids)))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each text. *Shape:* (n,)."""
        lengths: NDArray[np.int64] = self.attention_mask.sum(dim=1).numpy()
        return lengths

    def part(self, rows: NDArray[np.int64]) -> "Batch":
        """Some of the texts, in the order of `rows`, padded to the longest of them."""
        width, taken = padded(int(self.lengths[rows].max())), torch.from_numpy(rows)
        return Batch(*(field[taken, :width] for field in (self.input_ids, self.attention_mask, self.token_type_ids)))

    def to(self, device: torch.device) -> "Batch":
        """The same batch on another device."""
        return Batch(*(send(field, device) for field in (self.input_ids, self.attention_mask, self.token_type_ids)))

    def arguments(self, model: nn.Module) -> dict[str, Tensor]:
        """Keyword arguments to call `model` with, on its device.

        Token types are among them only if the model distinguishes any (BERT does, RoBERTa does not).
        """
        batch = self.to(next(model.parameters()).device)
        arguments = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
        if getattr(model.config, "type_vocab_size", 0) > 1:
            arguments["token_type_ids"] = batch.token_type_ids
        return arguments


class Template:
    """Where a tokenizer puts its special tokens. It is read off the tokenizer's own encoding of "a" and of ("a", "a").

    A single text a becomes `prefix a single_suffix`, a pair (a, b) becomes `prefix a middle b suffix`. The token type
    of b and of the suffix is `second_type`, that of all before them is 0.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        single, pair = tokenizer._tokenizer.encode("a"), tokenizer._tokenizer.encode("a", "a")
        first, second = (_span(pair.sequence_ids, number) for number in (0, 1))
        self.prefix = pair.ids[: first.start]
        self.middle = pair.ids[first.stop : second.start]
        self.suffix = pair.ids[second.stop :]
        self.single_suffix = single.ids[_span(single.sequence_ids, 0).stop :]
        self.second_type = pair.type_ids[second.start]
        if tokenizer.pad_token_id is None:
            raise UserError(
                f"{tokenizer.name_or_path}: its tokenizer has no padding token, which batches need; set pad_token in "
                "its tokenizer_config.json"
            )
        self.pad = int(tokenizer.pad_token_id)


def _span(sequence_ids: list[int | None], number: int) -> slice:
    at = [i for i, sequence in enumerate(sequence_ids) if sequence == number]
    return slice(at[0], at[-1] + 1)


def pool(states: Tensor, mask: Tensor, kind: str) -> Tensor:
    """One vector of the states of a text's real tokens, in float32; `kind` is one of `encoder.pooling`.

    That is the first or the last state, the largest value of each dimension, or a mean: of all alike, with weights
    1, 2, 3 ... from the first token on, or as the sum divided by the square root of the number of tokens.

    *Shape:* states (n, tokens, d), mask (n, tokens) of 0 and 1, the ones first -> (n, d).
    """
    if kind == "cls":
        return states[:, 0].float()
    if kind == "lasttoken":
        last = (mask.sum(dim=1) - 1).view(-1, 1, 1).expand(-1, 1, states.shape[2])
        return states.gather(1, last).squeeze(1).float()
    padding = mask.unsqueeze(-1) == 0
    if kind == "max":
        return states.masked_fill(padding, float("-inf")).amax(dim=1).float()
    if kind == "weightedmean":
        mask = mask * mask.cumsum(dim=1)
        states = states.float() * mask.unsqueeze(-1)
    # The sum is in float32, since one in 16 bits would lose digits.
    total, count = states.masked_fill(padding, 0).sum(dim=1, dtype=torch.float32), mask.sum(dim=1, keepdim=True)
    return total / (count.sqrt() if kind == "mean_sqrt_len_tokens" else count.clamp(min=1))


def embedding(states: Tensor, mask: Tensor, *, pooling: str, similarity: str) -> Tensor:
    """Pool, and scale to length 1 if the similarity is `cosine`. *Shape:* as `pool`."""
    vectors = pool(states, mask, pooling)
    return F.normalize(vectors, dim=-1) if similarity == "cosine" else vectors
