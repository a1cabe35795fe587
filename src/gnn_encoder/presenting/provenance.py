"""What a report is of: data, model, code and machine; versions of packages; times and sizes of the stages."""

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml

from gnn_encoder.models.device import processor
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.stage import TIMES, artifact_name
from gnn_encoder.presenting.formats import NOTHING, seconds, size
from gnn_encoder.presenting.stored import read_json
from gnn_encoder.presenting.tables import Table

NAMED = "gnn-encoder torch transformers tokenizers numpy scipy polars faiss-cpu faiss-gpu bm25s ir-measures".split()


def facts(params: Params, statistics: dict[str, Any]) -> dict[str, str]:
    """Data, model, code, and the machine that writes the report. `statistics`: of the prepared tables; {} before."""
    passages = statistics.get("passages", {}).get("passages")
    queries = [f"{part['queries']:,} {split}" for split, part in statistics.items() if "queries" in part]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")  # differs a little each time a machine starts
    return {
        "Data": f"{params.data.source}, {f'{passages:,} passages' if passages else 'not prepared: dvc repro prepare'}",
        "Queries": ", ".join(queries) or NOTHING,
        "Base model": params.encoder.model,
        "Seed": str(params.seed),
        "Code": code_revision(),
        "Machine": f"{processor()}, {os.cpu_count()} cores, {round(memory / 2**30)} GiB",
    }


def code_revision() -> str:
    """The commit, with `-dirty` where files differ from it."""
    command = ["git", "describe", "--always", "--dirty", "--exclude", "*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (FileNotFoundError, subprocess.CalledProcessError):
        return "not in a git repository"


def versions() -> dict[str, str]:
    """Versions of Python, of this package, and of those of its dependencies that decide results."""
    found = {one.name: one.version for one in metadata.distributions()}
    return {"Python": platform.python_version()} | {name: found[name] for name in NAMED if name in found}


def stages_table() -> Table:
    """One row per stage that has run, as dvc.lock has them, with its runs' times and sizes added up."""
    found: dict[str, list[dict[str, Any]]] = {}  # stage -> its runs as in dvc.lock
    for lock in [Path("dvc.lock"), *sorted(Path("pipelines").rglob("dvc.lock"))]:
        text = lock.read_text(encoding="utf-8") if lock.is_file() else "stages: {}"
        for address, run in yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))["stages"].items():
            found.setdefault(address.partition("@")[0], []).append(run)
    every = [run for runs in found.values() for run in runs]
    rows = [[name, str(len(runs)), *_times_and_sizes(runs)] for name, runs in [*found.items(), ("all", every)]]
    note = f"What each stage took here and wrote; {NOTHING} where it was interrupted or not run here"
    return Table(title="Times and sizes", columns=["Stage", "runs", "time", "size"], rows=rows, note=note)


def _times_and_sizes(runs: list[dict[str, Any]]) -> list[str]:
    """The sum of the times, a lower bound if some are missing, and of the bytes that were written."""
    outs = [run.get("outs", []) for run in runs]
    times = [time for time in map(_seconds, outs) if time is not None]
    time = seconds(sum(times) if times else None, at_least=0 < len(times) < len(runs))
    return [time, size(sum(out.get("size", 0) for of in outs for out in of))]


def _seconds(outs: list[dict[str, Any]]) -> float | None:
    records = (read_json(TIMES / f"{artifact_name(Path(out['path']))}.json") for out in outs)
    return next((record["seconds"] for record in records if record), None)
