"""The papers' tables and figures as later stages leave them, and all else that lies in metrics/."""

import base64
from pathlib import Path

from markupsafe import Markup

from gnn_encoder import project
from gnn_encoder.evaluation.values import JUDGED
from gnn_encoder.report.artifacts import read_json
from gnn_encoder.report.blocks import blocks
from gnn_encoder.report.section import Section

FOLDER = "evidence"  # of metrics/ and of plots/
ELSEWHERE = (*JUDGED, "significance", "baselines", "costs")  # in sections of their own


def evidence() -> Section:
    """Every JSON file as tables, every PNG as a figure."""
    found = Section()
    for path in sorted(project.METRICS.rglob("*.json")):
        if _is_evidence(path) or path.stem not in ELSEWHERE:
            found.tables += blocks(read_json(path), _title(path, project.METRICS))
    pictures = sorted((project.PLOTS / FOLDER).rglob("*.png"))
    for path in pictures:
        found.show(_title(path, project.PLOTS), _image(path))
    if not pictures and not any(map(_is_evidence, project.METRICS.rglob("*.json"))):
        found.miss("The papers' tables and figures have not been made", "dvc repro evidence")
    return found


def _is_evidence(path: Path) -> bool:
    return FOLDER in path.parts


def _title(path: Path, folder: Path) -> str:
    parts = [part for part in path.relative_to(folder).with_suffix("").parts if part != FOLDER]
    return ", ".join(parts).replace("_", " ")


def _image(path: Path) -> Markup:
    content = base64.b64encode(path.read_bytes()).decode()
    return Markup('<img alt="{}" src="data:image/png;base64,{}">').format(_title(path, project.PLOTS), content)
