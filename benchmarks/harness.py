"""What the benchmarks share: the machine they ran on, sides that take turns, tables and records.

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


def finish(options: argparse.Namespace, requirement: str, met: bool, record: dict[str, Any]) -> None:
    """Tell a stated bound and whether this run kept it, and write the record.

    A quick run shows nothing either way, and writes only where `--output` says.
    """
    told = "not judged by a quick run" if options.quick else "met" if met else "NOT MET"
    print(f"requirement: {requirement}: {told}")
    path: Path | None = options.output or (None if options.quick else RESULTS / f"{options.name}.json")
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    full = {"benchmark": options.name, "quick": options.quick, "machine": machine(), **record}
    full["verdict"] = {"requirement": requirement, "met": met}
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


Record = dict[str, Any]


def encode_passages(record: Record) -> str:
    rates = ", ".join(f"{name} {rate:.0f}" for name, rate in record["passages_per_second"].items())
    return f"passages/s: {rates}; {record['ratio']:.2f}x the fastest peer"


def edge_features(record: Record) -> str:
    rates, peer = record["pairs_per_second"], "CrossEncoder.predict"
    ours = f"{rates['ours']:.0f} pairs/s in {record['precision']}, peer in float32 {rates[peer]:.0f}"
    return f"{ours}: {record['ratio']:.2f}x; ours in float32 {rates['ours, float32'] / rates[peer]:.2f}x"


def train_encoder(record: Record) -> str:
    rates = [f"{name} {rate:.1f}" for name, rate in record["queries_per_second"].items()]
    return f"queries/s: {', '.join(rates)}; {record['ratio']:.2f}x the faster peer"


def search_latency(record: Record) -> str:
    ours, noise = record["ratio"], record["ratio_of_equals"]
    p50 = {name: side["p50_ms"] for name, side in record["sides"].items()}
    times = f"p50 {p50['gnn_encoder']:.2f} and {p50['dual_encoder']:.2f} ms"
    interval = f"{ours['ratio']:.3f} ({ours['low']:.3f} to {ours['high']:.3f})"
    return f"{times}, ratio {interval}; of equals {noise['ratio']:.3f}"


def serving(record: Record) -> str:
    clients = max(record["sides"]["serve"], key=int)
    ours, peer = (record["sides"][side][clients] for side in ("serve", "peer"))
    rates = f"{ours['queries_per_second']:.0f} queries/s, peer {peer['queries_per_second']:.0f}: {record['ratio']:.2f}x"
    soaked = record["soak"]
    flat = f"; memory {soaked['growth']:+.1%} in {soaked['minutes']:.0f} minutes" if soaked else ""
    return f"{rates}; p99 {ours['p99_ms']:.0f} and {peer['p99_ms']:.0f} ms{flat}"


def attention(record: Record) -> str:
    rows = [f"{row['case'].partition(',')[0]} {row['ratio']:.1f}x" for row in record["rows"]]
    return f"{', '.join(rows)} on {record['device']}"


def bm25(record: Record) -> str:
    each = {side: f"{of['ms_a_query_and_core']:.1f}" for side, of in record["sides"].items()}
    built = record["index"]
    index = f"index in {built['seconds'] / 60:.0f} min, {built['peak_gib']:.1f} GiB"
    return f"{record['passages']:,} passages: {', '.join(f'{side} {ms} ms' for side, ms in each.items())}; {index}"


def at_size(record: Record) -> str:
    last = {name: uses[-1] for name, uses in record["stages"].items() if uses[-1]["seconds"] >= 60}
    each = [f"{name} {use['seconds'] / 60:.1f} min, {use['anonymous_mib']:.0f} MiB" for name, use in last.items()]
    return f"{record['sizes'][-1]:,} passages: {'; '.join(each)}"


def own_vectors(record: Record) -> str:
    test = ", ".join(f"{name} {100 * value:.1f}" for name, value in record["test"].items())
    above = record["above"][record["best_without_a_graph"]]
    low, high = (f"{100 * above[end]:+.1f}" for end in ("low", "high"))
    return f"RR@10 on test: {test}; {100 * above['difference']:+.1f} [{low}, {high}] above the best closed form"


def common_practice(record: Record) -> str:
    test, took = record["test"], ", ".join(f"{what} {took:.0f} s" for what, took in record["seconds"].items())
    means = ", ".join(f"{name} {100 * of['RR@10']:.1f}" for name, of in test["means"].items())
    found = test["against"]["gnn_encoder"]
    low, high = (f"{100 * found[end]:+.1f}" for end in ("low", "high"))
    return f"RR@10 on test: {means}; GNN-encoder {100 * found['difference']:+.1f} [{low}, {high}]; {took}"


DESCRIBE: dict[str, Callable[[Record], str]] = {
    "encode_passages": encode_passages,
    "edge_features": edge_features,
    "train_encoder": train_encoder,
    "search_latency": search_latency,
    "serving": serving,
    "attention": attention,
    "bm25": bm25,
    "at_size": at_size,
    "own_vectors": own_vectors,
    "common_practice": common_practice,
}


def row(name: str) -> list[str]:
    """Cells of one benchmark."""
    path = RESULTS / f"{name}.json"
    if not path.is_file():
        return [name, "", "not measured", "", "", ""]
    record = json.loads(path.read_text(encoding="utf-8"))
    verdict, machine = record["verdict"], record["machine"]
    judged = "not judged (quick run)" if record["quick"] else "met" if verdict["met"] else "**not met**"
    return [name, verdict["requirement"], DESCRIBE[name](record), judged, hardware(machine), machine["date"]]


def hardware(machine: Record) -> str:
    """Where it ran."""
    formats = [name for name in ("amx", "bf16") if machine[name]]
    parts = [f"{machine['cores']} cores of {machine['cpu']}", f"{machine['torch_threads']} threads", *formats]
    return ", ".join([*parts, machine["gpu"]] if machine["gpu"] else parts)


def print_results() -> None:
    """The table of results in Markdown, from the records: nothing in it is typed by hand."""
    print("| benchmark | requirement | measured | verdict | machine | date |")
    print("|---|---|---|---|---|---|")
    for name in DESCRIBE:
        print("| " + " | ".join(row(name)) + " |")


if __name__ == "__main__":
    print_results()
