"""What the benchmarks share: sides that take turns, texts, tables, records and the machine they ran on.

python benchmarks/harness.py    # prints the table of all results, for README.md
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

from gnn_encoder.base.tables import PASSAGES, QUERIES, write_table
from gnn_encoder.data.formats import open_insuranceqa

ROOT = Path(__file__).resolve().parent.parent
RESULTS = Path(__file__).resolve().parent / "results"
PACKAGES = ("torch", "transformers", "sentence-transformers", "torch-geometric", "faiss-cpu", "faiss-gpu", "numpy")
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # models lie on this disk: libraries need not ask a hub
SEED = 13
COMMON = 33  # the first words of Zipf's law are stop words, and left out
PART = 10_000


def parser(name: str, description: str | None) -> argparse.ArgumentParser:
    """Options of every benchmark; run it from the project's root."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--quick", action="store_true", help="a small run that shows the script works; not a measurement")
    made.add_argument("--output", type=Path, help=f"default: benchmarks/results/{name}.json; none with --quick")
    made.set_defaults(name=name)
    return made


def parse(parser: argparse.ArgumentParser, **sizes: tuple[float, float]) -> argparse.Namespace:
    """The given options, with further ones of these names that are numbers: by default the first, or with --quick the
    second one.
    """
    for name, (usual, quick) in sizes.items():
        parser.add_argument(f"--{name}", type=type(usual), help=f"default: {usual:,}, or {quick:,} with --quick")
    options = parser.parse_args()
    for name, values in sizes.items():
        if getattr(options, name) is None:
            setattr(options, name, values[options.quick])
    return options


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


def peer_training(folder: str, *, steps: int, batch: int, rate: float, warmup: int, bf16: bool, seed: int) -> Any:
    """How a peer's `SentenceTransformerTrainer` trains: nothing is saved, logged or reported on the way."""
    import torch
    from sentence_transformers import SentenceTransformerTrainingArguments

    return SentenceTransformerTrainingArguments(
        output_dir=folder,
        max_steps=steps,
        per_device_train_batch_size=batch,
        learning_rate=rate,
        warmup_steps=warmup,
        use_cpu=not torch.cuda.is_available(),  # else it refuses bf16 there
        bf16=bf16,
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        dataloader_pin_memory=False,
        seed=seed,
    )


# --- texts: InsuranceQA's from its package, so that no stage need have run, and synthetic ones ------------------------


def sample_passages(size: int) -> list[str]:
    """Answers drawn at random, white space collapsed, in the source's order."""
    return _sample((passage.text for _, passage in open_insuranceqa().passages()), size)


def sample_queries(size: int) -> list[str]:
    """Training queries drawn at random."""
    return _sample((query.text for _, query in open_insuranceqa().queries["train"]()), size)


def sample_pairs(size: int) -> dict[str, list[str]]:
    """Training queries drawn at random, in turns where these are few: each with a relevant answer and a random one."""
    source, draw = open_insuranceqa(), np.random.default_rng(SEED)
    passages = {passage.pid: passage.text for _, passage in source.passages()}
    relevant = {one.qid: one.pid for _, one in source.judgements["train"]()}
    asked = [(query.text, passages[relevant[query.qid]]) for _, query in source.queries["train"]()]
    chosen, others = draw.permutation(len(asked)), list(passages.values())
    pairs = [asked[chosen[place % len(asked)]] for place in range(size)]
    drawn = [others[row] for row in draw.integers(len(others), size=size)]
    return {"anchor": [one for one, _ in pairs], "positive": [one for _, one in pairs], "negative": drawn}


def synthetic(count: int, words: int, *, vocabulary: int, seed: int) -> Iterator[list[str]]:
    """Texts of so many words that are drawn by Zipf's law, some texts at a time."""
    generator, names = np.random.default_rng(seed), np.array([f"w{i}" for i in range(vocabulary)])
    share = np.cumsum(1 / (np.arange(vocabulary) + COMMON))
    for first in range(0, count, PART):
        drawn = np.searchsorted(share, generator.random((min(PART, count - first), words)) * share[-1])
        yield [" ".join(row) for row in names[drawn.clip(max=vocabulary - 1)]]


def write_passages(path: Path, texts: list[str]) -> None:
    """Texts as a passages table, without titles. The file must be called passages.parquet."""
    columns = [[str(row) for row in range(len(texts))], [""] * len(texts), texts]
    write_table(path, PASSAGES, [pa.table(columns, schema=PASSAGES)])


def write_queries(path: Path, texts: list[str]) -> None:
    """Texts as a queries table."""
    answers: list[list[str]] = [[]] * len(texts)
    write_table(path, QUERIES, [pa.table([[str(row) for row in range(len(texts))], texts, answers], schema=QUERIES)])


def cosines(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Row by row. *Shape:* (n, d), (n, d) -> (n,)."""
    return (one * other).sum(1) / (np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1))


def _sample(texts: Iterable[str], size: int) -> list[str]:
    every = list(texts)
    rows = np.random.default_rng(SEED).choice(len(every), size=min(size, len(every)), replace=False)
    return [every[row] for row in np.sort(rows)]


# --- records ----------------------------------------------------------------------------------------------------------


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


def finish(options: argparse.Namespace, requirement: str, met: bool, measured: str, record: dict[str, Any]) -> None:
    """Tell a stated bound and whether this run kept it, and write the record; `measured`: its figures in a line.

    A quick run shows nothing either way, and writes only where `--output` says.
    """
    told = "not judged by a quick run" if options.quick else "met" if met else "NOT MET"
    print(f"requirement: {requirement}: {told}")
    path: Path | None = options.output or (None if options.quick else RESULTS / f"{options.name}.json")
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    full = {"benchmark": options.name, "quick": options.quick, "machine": machine(), **record}
    full["verdict"] = {"requirement": requirement, "met": met, "measured": measured}
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


NAMES = ["encode_passages", "edge_features", "train_encoder", "search_latency", "serving", "attention", "bm25"]
NAMES += ["at_size", "own_vectors", "common_practice", "hubs"]


def row(name: str) -> list[str]:
    """Cells of one benchmark."""
    path = RESULTS / f"{name}.json"
    if not path.is_file():
        return [name, "", "not measured", "", "", ""]
    record = json.loads(path.read_text(encoding="utf-8"))
    verdict, machine = record["verdict"], record["machine"]
    judged = "not judged (quick run)" if record["quick"] else "met" if verdict["met"] else "**not met**"
    return [name, verdict["requirement"], verdict["measured"], judged, hardware(machine), machine["date"]]


def hardware(machine: dict[str, Any]) -> str:
    """Where it ran."""
    formats = [name for name in ("amx", "bf16") if machine[name]]
    parts = [f"{machine['cores']} cores of {machine['cpu']}", f"{machine['torch_threads']} threads", *formats]
    return ", ".join([*parts, machine["gpu"]] if machine["gpu"] else parts)


def print_results() -> None:
    """The table of results in Markdown, from the records: nothing in it is typed by hand."""
    print("| benchmark | requirement | measured | verdict | machine | date |")
    print("|---|---|---|---|---|---|")
    for name in NAMES:
        print("| " + " | ".join(row(name)) + " |")


if __name__ == "__main__":
    print_results()
