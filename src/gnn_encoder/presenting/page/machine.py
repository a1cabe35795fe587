"""What the report was made on: processor, memory, GPU, versions of Python and of the packages."""

import os
import platform
import re
from importlib import metadata
from pathlib import Path

import torch

PACKAGE = "gnn-encoder"


def hardware() -> dict[str, str]:
    """Processor, memory and GPU, as a reader would name them."""
    cores = os.cpu_count() or 1
    gpus = [torch.cuda.get_device_name(device) for device in range(torch.cuda.device_count())]
    return {
        "Processor": f"{processor()}, {cores} core{'s' if cores > 1 else ''}",
        "Memory": f"{memory_gib()} GiB",
        "GPU": ", ".join(gpus) or "none",
    }


def processor() -> str:
    """The CPU's model."""
    described = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*: (.+)", described.read_text()) if described.is_file() else None
    return found[1] if found else platform.processor() or platform.machine()


def memory_gib() -> int:
    """Memory to the next GiB: the exact number differs from one start of a machine to the next."""
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)


def versions() -> dict[str, str]:
    """Versions of Python, and of the packages that this one needs and that are installed."""
    installed = {"Python": platform.python_version(), PACKAGE: metadata.version(PACKAGE)}
    for requirement in metadata.requires(PACKAGE) or []:
        name = re.split(r"[^A-Za-z0-9._-]", requirement)[0]
        if "extra ==" in requirement and not name.startswith("faiss"):
            continue
        try:
            installed[name] = metadata.version(name)
        except metadata.PackageNotFoundError:  # the other one of faiss-cpu and faiss-gpu
            continue
    return installed
