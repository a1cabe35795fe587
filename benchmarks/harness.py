"""What the benchmarks share: the machine they ran on, sides that take turns, tables and records."""

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = Path(__file__).resolve().parent / "results"
PACKAGES = ("torch", "transformers", "sentence-transformers", "torch-geometric", "faiss-cpu", "faiss-gpu", "numpy")
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # models lie on this disk: libraries need not ask a hub


def parser(name: str, description: str | None) -> argparse.ArgumentParser:
    """Options of every benchmark; run it from the project's root."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--quick", action="store_true", help="a small run that shows the script works; not a measurement")
    made.add_argument("--output", type=Path, help=f"JSON record (default: results/{name}.json; none with --quick)")
    return made


@contextmanager
def temporary_project() -> Iterator[Path]:
    """Work in an empty folder that has the project's params.yaml: scratch and results leave with it."""
    before = Path.cwd()
    with TemporaryDirectory(prefix="gnn-encoder-benchmark-") as name:
        folder = Path(name)
        shutil.copy(before / "params.yaml", folder)
        os.chdir(folder)
        try:
            yield folder
        finally:
            os.chdir(before)


def take_turns(sides: Mapping[str, Callable[[], float]], repeats: int) -> dict[str, list[float]]:
    """Measure every side once a round, so that a busy machine slows all of them. Each side returns its seconds."""
    found: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(repeats):
        for name, side in sides.items():
            found[name].append(side())
            note(f"round {number + 1}/{repeats}: {name} {found[name][-1]:.2f} s")
    return found


def medians(times: Mapping[str, list[float]]) -> dict[str, float]:
    """The middle one of each side's values."""
    return {name: statistics.median(values) for name, values in times.items()}


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call, the GPU's share included."""
    import torch

    synchronise = torch.cuda.synchronize if torch.cuda.is_available() else (lambda: None)
    synchronise()
    start = time.perf_counter()
    work()
    synchronise()
    return time.perf_counter() - start


def note(text: str) -> None:
    """Say on stderr how far it is."""
    print(text, file=sys.stderr, flush=True)


def print_table(header: list[str], rows: list[list[object]]) -> None:
    """Columns as wide as their widest cell, the first to the left, the others to the right."""
    cells = [header, *([str(value) for value in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    for row in cells:
        rest = (value.rjust(width) for value, width in zip(row[1:], widths[1:], strict=True))
        print("  ".join([row[0].ljust(widths[0]), *rest]))


def requirement(text: str, met: bool, quick: bool) -> dict[str, object]:
    """A stated bound and whether this run kept it; a quick run shows nothing either way."""
    print(f"requirement: {text}: " + ("not judged by a quick run" if quick else "met" if met else "NOT MET"))
    return {"requirement": text, "met": met}


def finish(name: str, options: argparse.Namespace, record: dict[str, Any]) -> None:
    """Write the record; a quick run writes only where `--output` says."""
    path: Path | None = options.output or (None if options.quick else RESULTS / f"{name}.json")
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    full = {"benchmark": name, "quick": options.quick, "machine": machine(), **record}
    path.write_text(json.dumps(full, indent=2) + "\n", encoding="utf-8")
    note(f"wrote {path}")


def machine() -> dict[str, object]:
    """Hardware, date and versions."""
    import torch

    from gnn_encoder.text.device import supports_bf16

    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "torch_threads": torch.get_num_threads(),
        "bf16": supports_bf16(),
        "amx": bool(torch.cpu._is_amx_tile_supported()),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "python": platform.python_version(),
        "versions": {name: found for name in PACKAGES if (found := _version(name)) is not None},
    }


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
