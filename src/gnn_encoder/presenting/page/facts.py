"""The section This run: facts about the run, one line each."""

from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.presenting.artifacts import read_json
from gnn_encoder.presenting.page.machine import hardware
from gnn_encoder.presenting.page.revision import code_revision, lock_hash


def facts(params: Params) -> dict[str, str]:
    """Data, model, code, artifacts, and the machine that wrote the report."""
    statistics = read_json(project.PREPARED / "statistics.json") or {}
    passages = statistics.get("passages", {}).get("passages")
    sizes = [f"{part['queries']:,} {split}" for split, part in statistics.items() if "queries" in part]
    return {
        "Data": f"{params.data.source}, {f'{passages:,} passages' if passages else 'not prepared: dvc repro prepare'}",
        "Queries": ", ".join(sizes) or "–",
        "Base model": params.encoder.model,
        "Seed": str(params.seed),
        "Code": code_revision(),
        "Artifacts": f"dvc.lock {lock_hash() or 'not written'}",
        **hardware(),
    }
