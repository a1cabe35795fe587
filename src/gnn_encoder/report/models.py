"""How the models were trained, and what PAIR and Dual-Cross-Encoder show of themselves."""

from pathlib import Path

import polars as pl

from gnn_encoder.core import project
from gnn_encoder.core.params import Evaluate
from gnn_encoder.evaluation.measures import parse
from gnn_encoder.report import charts
from gnn_encoder.report.artifacts import read_json
from gnn_encoder.report.blocks import blocks
from gnn_encoder.report.section import Section


def histories() -> dict[str, Path]:
    """Learning curves that are there, by the model's folder below data/."""
    paths = sorted([*project.DATA.glob("*/history.csv"), *project.DATA.glob("*/*/history.csv")])
    return {path.parent.relative_to(project.DATA).as_posix(): path for path in paths}


def training() -> Section:
    """A learning curve of every model."""
    found = Section()
    for name, path in histories().items():
        found.show(name, charts.training_chart(name, pl.read_csv(path)))
    if not found.figures:
        found.miss("No model has been trained", "dvc repro evaluate@gnn_encoder")
    return found


def pair() -> Section:
    """PAIR's similarities and pseudo-labels."""
    found = Section()
    similarities = read_json(project.PAIR_SIMILARITY / "similarity.json")
    labels = read_json(project.PAIR_LABELS / "statistics.json")
    if similarities:
        caption = "Mean similarities of the dev questions' positives, with standard deviations (PAIR, Figure 4)"
        found.show(caption, charts.similarity_chart(similarities))
    else:
        found.miss("The similarities have not been measured", "dvc repro pair_similarity")
    if labels:
        found.tables += blocks(labels, "Pseudo-labels")
    else:
        found.miss("There are no pseudo-labels", "dvc repro pair_label")
    return found


def dual_cross(section: Evaluate) -> Section:
    """Dual-Cross-Encoder's generated questions and its views."""
    found = Section()
    quality = read_json(project.GENERATED / "quality.json")
    path = project.VIEWS_CURVE / "curve.csv"
    if quality:
        found.tables += blocks(quality, "Generated questions beside those that people asked of the dev passages")
    else:
        found.miss("No questions have been generated", "dvc repro generate_questions")
    if path.is_file():
        curve = pl.read_csv(path)
        (tested,) = parse([section.significance])
        caption = "Views a passage, on the dev questions (Dual-Cross-Encoder, Table 6)"
        found.show(caption, *charts.views_charts(curve, tested))
        shares = [measure for measure in parse(section.measures) if measure in curve.columns]
        found.tables += blocks(curve.with_columns(pl.col(shares) * 100).to_dicts(), f"{caption}, points of 100")
    else:
        found.miss("Numbers of views have not been compared", "dvc repro views_curve")
    return found
