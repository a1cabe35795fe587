"""Where models run and in which number format."""

from contextlib import AbstractContextManager

import torch

from gnn_encoder.core import distributed
from gnn_encoder.core.errors import UserError


def device() -> torch.device:
    """The GPU of this rank, else the CPU."""
    if torch.cuda.is_available():
        return torch.device("cuda", distributed.local_rank())
    return torch.device("cpu")


def supports_bf16() -> bool:
    """Whether bf16 is computed natively here: a GPU that has it, or a CPU with AMX or AVX512-BF16."""
    if torch.cuda.is_available():
        return bool(torch.cuda.is_bf16_supported())
    return bool(torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported())


def working_dtype(precision: str) -> torch.dtype:
    """The dtype of a forward pass for `encoder.precision`: auto is bf16 where it is native, else float32."""
    if precision == "auto":
        return torch.bfloat16 if supports_bf16() else torch.float32
    if precision in ("bf16", "fp32"):
        return torch.bfloat16 if precision == "bf16" else torch.float32
    raise UserError(f"encoder.precision is {precision!r}: must be auto, bf16 or fp32")


def autocast(dtype: torch.dtype) -> AbstractContextManager[object]:
    """Training in bf16 keeps float32 weights and casts as it computes."""
    return torch.autocast(device().type, dtype=dtype, enabled=dtype is not torch.float32)


def attention_implementation() -> str:
    """SDPA on a GPU. On a CPU plain attention: SDPA's backward took 45% of a training step there."""
    return "sdpa" if torch.cuda.is_available() else "eager"
