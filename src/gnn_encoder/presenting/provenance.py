"""What a report is of: data, model, code and machine; versions of packages; times of the stages."""

import os
import platform
import subprocess
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from gnn_encoder.base.distributed import cores
from gnn_encoder.pipeline.params import Params, parse_yaml
from gnn_encoder.pipeline.stage import TIMES, artifact_name
from gnn_encoder.presenting.formats import NOTHING, seconds
from gnn_encoder.presenting.stored import read_record
from gnn_encoder.presenting.tables import Table
from gnn_encoder.text.device import processor

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
        "Machine": f"{processor()}, {cores()} cores, {round(memory / 2**30)} GiB",
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
    """One row per stage in dvc.lock, with its runs' times added up: a lower bound where some are missing."""
    found: dict[str, list[float | None]] = {}  # stage -> seconds of its runs
    for address, outs in locked():
        found.setdefault(address.partition("@")[0], []).append(_seconds(outs))
    every = [one for runs in found.values() for one in runs]
    rows = []
    for name, runs in [*found.items(), ("all", every)]:
        known = [one for one in runs if one is not None]
        rows.append([name, str(len(runs)), seconds(sum(known) if known else None, at_least=len(known) < len(runs))])
    note = f"What each stage took here; {NOTHING} where it was interrupted or not run here"
    return Table(title="Times", columns=["Stage", "runs", "time"], rows=rows, note=note)


def locked() -> Iterator[tuple[str, list[Path]]]:
    """The stages that DVC notes as run here, those of the root's pipeline first: address, what each has written."""
    for lock in [Path("dvc.lock"), *sorted(Path("pipelines").rglob("dvc.lock"))]:
        text = lock.read_bytes() if lock.is_file() else b""
        for address, run in (parse_yaml(text, lock) or {}).get("stages", {}).items():
            yield address, [Path(out["path"]) for out in run.get("outs", [])]  # all stages work in the root


def _seconds(outs: list[Path]) -> float | None:
    """What a run took, as it wrote down beside its artifacts."""
    records = (read_record(TIMES / f"{artifact_name(out)}.json", dict[str, Any]) for out in outs)
    return next((record["seconds"] for record in records if record), None)
