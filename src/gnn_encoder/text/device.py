"""Where models run, in which number format, and what they make of a batch: a vector a text.

On a GPU a batch in bf16 is packed: all its tokens stand in one row, in which FlashAttention keeps each text to itself.
"""

from contextlib import AbstractContextManager
from typing import Any

import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from gnn_encoder.base import distributed
from gnn_encoder.text.batches import Batch, send

PACKED = "packed"  # what transformers' registry of attentions calls it
KINDS = ("bert", "roberta", "xlm-roberta", "camembert", "electra")  # that read the numbers of positions they are given


def device() -> torch.device:
    """The GPU of this rank, or the CPU where there is no GPU."""
    return torch.device("cuda", distributed.local_rank()) if torch.cuda.is_available() else torch.device("cpu")


def on_device(array: NDArray[Any]) -> Tensor:
    """An array as a tensor there."""
    return torch.from_numpy(array).to(device())


def supports_bf16() -> bool:
    """Whether this machine computes bf16 natively: a GPU that supports it, or a CPU with AMX or AVX512-BF16."""
    if torch.cuda.is_available():
        return bool(torch.cuda.is_bf16_supported())
    return bool(torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported())


def working_dtype(precision: str) -> torch.dtype:
    """The dtype of a forward pass for `encoder.precision`; `auto` is bf16 where the machine computes it natively."""
    is_narrow = supports_bf16() if precision == "auto" else precision == "bf16"
    return torch.bfloat16 if is_narrow else torch.float32


def autocast(dtype: torch.dtype) -> AbstractContextManager[object]:
    """A block that computes in `dtype`. It casts as it computes, so that training keeps float32 weights."""
    return torch.autocast(device().type, dtype=dtype, enabled=dtype is not torch.float32)


def pool(states: Tensor, mask: Tensor, kind: str) -> Tensor:
    """One vector of a text's states, in float32; `kind` is one of `encoder.pooling`.

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
    if head % 8 == 0 and head <= 256 and _has_kernel(model):  # what the kernel takes
        AttentionInterface.register(PACKED, _attend)
        AttentionMaskInterface.register(PACKED, _mask)
        model.set_attn_implementation(PACKED)


def _has_kernel(model: PreTrainedModel) -> bool:
    cuda = model.device.type == "cuda" and model.dtype is torch.bfloat16
    return cuda and torch.cuda.get_device_capability(model.device) >= (8, 0)  # Ampere


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


def _attend(module: nn.Module, *inputs: Any, ends: Tensor | None = None, longest: int = 0, **options: Any) -> Any:
    """Attention within the texts of a packed row, from one of `ends` to the next; without them SDPA's, whose shapes.

    `inputs` are query, key, value and mask.
    """
    if ends is None:
        return sdpa_attention_forward(module, *inputs, **options)
    from torch.nn.attention.varlen import varlen_attn  # only here: it needs CUDA

    q, k, v = (each[0].transpose(0, 1).contiguous() for each in inputs[:3])
    found: Any = varlen_attn(q, k, v, ends, ends, longest, longest, scale=options.get("scaling"))
    return found[None], None


def _mask(*, attention_mask: Tensor | None = None, **options: Any) -> Tensor | None:
    """SDPA's, of a padded batch; a packed row has none."""
    return None if attention_mask is None else sdpa_mask(attention_mask=attention_mask, **options)
