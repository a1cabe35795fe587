"""What a transformer reads: padded token ids, and where its tokenizer puts special tokens."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from gnn_encoder.core.errors import UserError


@dataclass(frozen=True)
class Batch:
    """Padded token ids. *Shape:* each (n, tokens)."""

    input_ids: Tensor
    attention_mask: Tensor
    token_type_ids: Tensor

    def to(self, device: torch.device) -> "Batch":
        """The same batch on another device."""
        return Batch(self.input_ids.to(device), self.attention_mask.to(device), self.token_type_ids.to(device))

    def arguments(self, model: nn.Module) -> dict[str, Tensor]:
        """What a transformer is called with, on its device; token types where it tells any apart (RoBERTa does not)."""
        batch = self.to(next(model.parameters()).device)
        arguments = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
        if getattr(model.config, "type_vocab_size", 0) > 1:
            arguments["token_type_ids"] = batch.token_type_ids
        return arguments


class Template:
    """Where a tokenizer puts its special tokens, read off an encoded probe of the tokenizer itself.

    A text alone is `prefix a single_suffix`, a pair is `prefix a middle b suffix`; b and what follows it may be of
    another segment (token type).
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
