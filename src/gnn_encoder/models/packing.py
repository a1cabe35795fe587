"""Batches without padding on a GPU: all tokens in one row, in which FlashAttention keeps each text to itself."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from gnn_encoder.models.batch import Batch
from gnn_encoder.models.device import send

PACKED = "packed"  # what transformers' registry of attentions calls it
KINDS = ("bert", "roberta", "xlm-roberta", "camembert", "electra")  # that read the numbers of positions they are given
AMPERE = (8, 0)  # the first GPUs that the kernel runs on
HEAD_STEP, WIDEST_HEAD = 8, 256  # columns of an attention head: multiples of the first, up to the second


def pack_where_possible(model: nn.Module) -> None:
    """Have `states` pack a model's texts from now on, if it, its number format and its GPU can."""
    if not isinstance(model, PreTrainedModel) or model.config.model_type not in KINDS:
        return
    head = model.config.hidden_size // model.config.num_attention_heads
    if head % HEAD_STEP or head > WIDEST_HEAD or not _has_kernel(model):
        return
    AttentionInterface.register(PACKED, _attend)
    AttentionMaskInterface.register(PACKED, _mask)
    model.set_attn_implementation(PACKED)


def _has_kernel(model: PreTrainedModel) -> bool:
    return (
        model.device.type == "cuda"
        and model.dtype is torch.bfloat16
        and torch.cuda.get_device_capability(model.device) >= AMPERE
    )


def states(model: Any, batch: Batch) -> tuple[Tensor, Tensor]:
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
