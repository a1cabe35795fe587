"""Where models run and in which number format."""

import platform
import re
from contextlib import AbstractContextManager
from pathlib import Path

import torch

from gnn_encoder.base import distributed


def device() -> torch.device:
    """The GPU of this rank, or the CPU where there is no GPU."""
    return torch.device("cuda", distributed.local_rank()) if torch.cuda.is_available() else torch.device("cpu")


def processor() -> str:
    """The name of the GPU, or of the CPU's model where there is no GPU."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    described = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*: (.+)", described.read_text("utf-8")) if described.is_file() else None
    return found[1] if found else platform.processor()


def supports_bf16() -> bool:
    """Whether this machine computes bf16 natively: a GPU that supports it, or a CPU with AMX or AVX512-BF16."""
    if torch.cuda.is_available():
        return bool(torch.cuda.is_bf16_supported())
    return bool(torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported())


def working_dtype(precision: str) -> torch.dtype:
    """The dtype of a forward pass for `encoder.precision`; `auto` is bf16 where the machine computes it natively."""
    if precision == "auto":
        precision = "bf16" if supports_bf16() else "fp32"
    return {"bf16": torch.bfloat16, "fp32": torch.float32}[precision]


def autocast(dtype: torch.dtype) -> AbstractContextManager[object]:
    """A block that computes in `dtype`. It casts as it computes, so that training keeps float32 weights."""
    return torch.autocast(device().type, dtype=dtype, enabled=dtype is not torch.float32)


def send(tensor: torch.Tensor, place: torch.device) -> torch.Tensor:
    """A tensor of the CPU on another device. A GPU is not waited for: what is pinned is copied while it computes."""
    return tensor.pin_memory().to(place, non_blocking=True) if place.type == "cuda" else tensor.to(place)


def attention_implementation() -> str | None:
    """Plain attention on a CPU, where SDPA's backward pass took 45% of a training step; on a GPU transformers' choice.

    That is SDPA for the models that have it; to ask for it is an error with those that have not.
    """
    return None if torch.cuda.is_available() else "eager"
