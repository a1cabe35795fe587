"""The section Evidence: the papers' tables and figures, and all files of metrics/ that no other section shows."""

import base64
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from markupsafe import Markup
from pydantic import TypeAdapter, ValidationError

from gnn_encoder.evaluation.ceiling import Ceiling
from gnn_encoder.evaluation.measures import parse
from gnn_encoder.evaluation.params import Evaluate
from gnn_encoder.evidence.summary import Summary
from gnn_encoder.pipeline import project
from gnn_encoder.presenting.artifacts import read_json
from gnn_encoder.presenting.attention import shares_table
from gnn_encoder.presenting.blocks import blocks
from gnn_encoder.presenting.cases import cases_table
from gnn_encoder.presenting.ceiling import ceiling_table
from gnn_encoder.presenting.names import TITLES
from gnn_encoder.presenting.page.section import Section
from gnn_encoder.presenting.tables import Table
from gnn_encoder.presenting.times import times_table
from gnn_encoder.presenting.trials import LABELS, summary_tables

FOLDER = "evidence"  # in metrics/, in plots/ and in data/
ELSEWHERE = (*project.JUDGED, "significance", "baselines", "costs", "slices", "claim")  # that other sections show


def evidence(section: Evaluate) -> Section:
    """Every JSON file as tables, every PNG as a figure, and the cases as a table with their texts."""
    (tested,) = parse([section.significance])
    found = Section()
    told = sorted(project.METRICS.rglob("*.json"), key=_place)
    ours = [path for path in told if _is_evidence(path)]
    others = [path for path in told if path not in ours and path.stem not in ELSEWHERE]
    pictures = sorted((project.PLOTS / FOLDER).rglob("*.png"), key=_place)
    cases = read_json(project.DATA / FOLDER / "cases.json")
    if not (pictures or cases or ours):
        found.miss("The papers' tables and figures have not been made", "dvc repro evidence")
    for path in ours:
        found.tables += _tables(path, tested)
    found.tables += [cases_table(cases)] if cases else []
    for path in others:
        found.tables += _tables(path, tested)
    for path in pictures:
        found.show(_title(path, project.PLOTS), _image(path))
    return found


def _tables(path: Path, tested: str) -> Iterable[Table]:
    """The tables of a JSON file: those made for its form if the form is known, otherwise `blocks`."""
    value, title = read_json(path), _title(path, project.METRICS)
    with suppress(ValidationError):
        summaries = TypeAdapter(dict[str, Summary]).validate_python(value)
        return summary_tables(summaries, title, LABELS.get(path.stem, "System"), tested)
    with suppress(ValidationError):
        ceilings = TypeAdapter(dict[str, Ceiling]).validate_python(value)
        return [ceiling_table(one, split) for split, one in reversed(ceilings.items())]
    own = {"attention.json": shares_table, "times.json": times_table}
    if path.parent == project.METRICS / FOLDER and path.name in own:
        return [own[path.name](value)]
    return blocks(value, title)


def _is_evidence(path: Path) -> bool:
    return FOLDER in path.parts


def _place(path: Path) -> tuple[int, Path]:
    """Sort key: the papers' tables and figures in the order of TITLES, then all other files by name."""
    names = list(TITLES)
    return names.index(path.stem) if path.stem in names else len(names), path


def _title(path: Path, folder: Path) -> str:
    if _is_evidence(path) and path.stem in TITLES:
        return TITLES[path.stem]
    parts = [part for part in path.relative_to(folder).with_suffix("").parts if part != FOLDER]
    return ", ".join(parts).replace("_", " ")


def _image(path: Path) -> Markup:
    content = base64.b64encode(path.read_bytes()).decode()
    return Markup('<img alt="{}" src="data:image/png;base64,{}">').format(_title(path, project.PLOTS), content)
