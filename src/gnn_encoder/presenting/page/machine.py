"""The machine that writes the report: processor, memory, GPU, and versions of Python and of the packages."""

import os
import platform
import re
from importlib import metadata
from pathlib import Path

import torch

PACKAGE = "gnn-encoder"


def hardware() -> dict[str, str]:
    """Processor, memory and GPU of this machine, as text."""
    cores = os.cpu_count() or 1
    gpus = [torch.cuda.get_device_name(device) for device in range(torch.cuda.device_count())]
    return {
        "Processor": f"{processor()}, {cores} core{'s' if cores > 1 else ''}",
        "Memory": f"{memory_gib()} GiB",
        "GPU": ", ".join(gpus) or "none",
    }


def processor() -> str:
    """Name of the CPU's model."""
    described = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*: (.+)", described.read_text()) if described.is_file() else None
    return found[1] if found else platform.processor() or platform.machine()


def memory_gib() -> int:
    """Memory rounded to whole GiB, since the exact number differs each time a machine starts."""
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)


def versions() -> dict[str, str]:
    """Versions of Python, of this package, and of those of its dependencies that are installed."""
    installed = {"Python": platform.python_version(), PACKAGE: metadata.version(PACKAGE)}
    for requirement in metadata.requires(PACKAGE) or []:
        name = re.split(r"[^A-Za-z0-9._-]", requirement)[0]
        if "extra ==" in requirement and not name.startswith("faiss"):
            continue
        try:
            installed[name] = metadata.version(name)
        except metadata.PackageNotFoundError:  # only one of faiss-cpu and faiss-gpu is installed
            continue
    return installed
