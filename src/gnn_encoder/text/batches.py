"""Batches of padded token ids, of similar length, and what a transformer makes of one: a vector a text.

On a GPU a batch in bf16 is packed: all its tokens stand in one row, in which FlashAttention keeps each text to itself.
An H200 then encodes 1.1 to 1.6 times as many passages a second (benchmarks/README.md).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel, PreTrainedTokenizerBase
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from gnn_encoder.text.device import send

Length = TypeVar("Length", int, NDArray[np.int64])
FULL = 24  # a full batch's tokens in units of what any batch costs besides: on a CPU about 128 of 3,072
PACKED = "packed"  # what transformers' registry of attentions calls it
KINDS = ("bert", "roberta", "xlm-roberta", "camembert", "electra")  # that read the numbers of positions they are given
AMPERE = (8, 0)  # the first GPUs that the kernel runs on
HEAD_STEP, WIDEST_HEAD = 8, 256  # columns of an attention head: multiples of the first, up to the second


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
    def of(cls, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], *, length: int) -> Self:
        """Texts, cut to `length` tokens."""
        found = tokenizer(list(texts), truncation=True, max_length=length, padding=True, return_tensors="pt")
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


def length_batches(
    lengths: NDArray[np.integer[Any]], batch_tokens: int, fixed: int | None = None
) -> list[NDArray[np.int64]]:
    """Split texts into batches of at most `batch_tokens` padded tokens, longest first.

    The longest come first so that a batch that does not fit in memory fails at once. Batches of equal width have equal
    size (only the window's last may be smaller), because torch caches memory for every shape that it meets.

    Args:
        fixed: what a batch costs besides its tokens, in tokens; a batch ends early where its rest costs less as one
            more batch, narrower. None: none ends early.

    *Shape:* lengths (n,) -> arrays of positions 0..n-1; each position is in exactly one.
    """
    order = np.argsort(-lengths.astype(np.int64), kind="stable")
    widths = padded(np.maximum(1, lengths[order].astype(np.int64)))
    batches, first = [], 0
    while first < len(order):
        batch = widths[first : first + max(1, batch_tokens // int(widths[first]))]
        size = len(batch)
        while fixed is not None:  # the best end of the batch, then that of what is left of it
            spared = (size - np.arange(size)) * (batch[0] - batch[:size])
            end = int(spared.argmax())
            if spared[end] <= fixed:
                break
            size = end
        batches.append(order[first : first + size])
        first += size
    return batches


def encode_by_length(encode: Callable[[Batch], Tensor], batch: Batch, batch_tokens: int) -> Tensor:
    """What `encode` makes of a batch, which it is given in parts of similar length, each as wide as its longest text.

    The parts share one autograd graph, so that they take the memory of the batch less its padding. Where a device takes
    few tokens at a time, it works at full speed on few: a part may be small, and nearly without padding.

    *Shape:* n texts -> (n, ...), in the batch's order.
    """
    parts = length_batches(batch.lengths, batch_tokens, batch_tokens // FULL)
    found = torch.cat([encode(batch.part(part)) for part in parts])
    return found[torch.from_numpy(np.concatenate(parts)).argsort().to(found.device)]


def pool(states: Tensor, mask: Tensor, kind: str) -> Tensor:
    """One vector of the states of a text's real tokens, in float32; `kind` is one of `encoder.pooling`.

    That is the first state, the last one, their mean or the largest value of each dimension.

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
    # The sum is in float32, since one in 16 bits would lose digits.
    total = states.masked_fill(padding, 0).sum(dim=1, dtype=torch.float32)
    return total / mask.sum(dim=1, keepdim=True).clamp(min=1)


def embedding(states: Tensor, mask: Tensor, *, pooling: str, similarity: str) -> Tensor:
    """Pool, and scale to length 1 if the similarity is `cosine`. *Shape:* as `pool`."""
    vectors = pool(states, mask, pooling)
    return F.normalize(vectors, dim=-1) if similarity == "cosine" else vectors


def pack_where_possible(model: nn.Module) -> None:
    """Have `token_states` pack a model's batches from now on, if it, its number format and its GPU can."""
    if not isinstance(model, PreTrainedModel) or model.config.model_type not in KINDS:
        return
    head = model.config.hidden_size // model.config.num_attention_heads
    if head % HEAD_STEP or head > WIDEST_HEAD or not _has_kernel(model):
        return
    AttentionInterface.register(PACKED, _attend)
    AttentionMaskInterface.register(PACKED, _mask)
    model.set_attn_implementation(PACKED)


def _has_kernel(model: PreTrainedModel) -> bool:
    is_narrow = model.device.type == "cuda" and model.dtype is torch.bfloat16
    return is_narrow and torch.cuda.get_device_capability(model.device) >= AMPERE


def token_states(model: Any, batch: Batch) -> tuple[Tensor, Tensor]:
    """The states of a batch's tokens, arbitrary at padding, and its mask. *Shape:* (n, tokens, d), (n, tokens)."""
    if getattr(model.config, "_attn_implementation", None) != PACKED:
        arguments = batch.arguments(model)
        return model(**arguments).last_hidden_state, arguments["attention_mask"]
    real, place = batch.attention_mask.bool(), next(model.parameters()).device
    lengths = real.sum(dim=1)
    starts = F.pad(lengths.cumsum(0), (1, 0))
    first = getattr(model.embeddings, "padding_idx", -1) + 1  # RoBERTa's kind begins to count behind its padding token
    positions = real.cumsum(dim=1)[real] - 1 + first
    fields = batch.input_ids[real], positions, batch.token_type_ids[real]
    ids, positions, types = (send(field, place)[None] for field in fields)
    arguments = {"token_type_ids": types} if getattr(model.config, "type_vocab_size", 0) > 1 else {}
    ends, longest = send(starts.int(), place), int(lengths.max())
    row = model(input_ids=ids, position_ids=positions, ends=ends, longest=longest, **arguments).last_hidden_state[0]
    where = starts[:-1, None] + torch.arange(real.shape[1])
    return row[send(where.clamp(max=len(positions[0]) - 1), place)], send(batch.attention_mask, place)


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    ends: Tensor | None = None,
    longest: int = 0,
    **options: Any,
) -> tuple[Tensor, Tensor | None]:
    """Attention within the texts of a packed row; of a padded batch, which has no `ends`, SDPA's.

    *Shape:* query, key, value (1, heads, tokens, d / heads), ends (texts + 1,) -> (1, tokens, heads, d / heads).
    """
    if ends is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    from torch.nn.attention.varlen import varlen_attn  # only here: it needs CUDA

    q, k, v = (each[0].transpose(0, 1).contiguous() for each in (query, key, value))
    found: Any = varlen_attn(q, k, v, ends, ends, longest, longest, scale=options.get("scaling"))
    return found[None], None


def _mask(*, attention_mask: Tensor | None = None, **options: Any) -> Tensor | None:
    """SDPA's, of a padded batch; a packed row has none."""
    return None if attention_mask is None else sdpa_mask(attention_mask=attention_mask, **options)
