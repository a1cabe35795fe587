"""The sections Training, PAIR and Dual-Cross-Encoder."""

import polars as pl

from gnn_encoder.evaluation.measures import parse
from gnn_encoder.evaluation.params import Evaluate
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.systems import registry
from gnn_encoder.presenting import similarity, views
from gnn_encoder.presenting.artifacts import read_json
from gnn_encoder.presenting.blocks import blocks
from gnn_encoder.presenting.page.section import Section
from gnn_encoder.presenting.pictures import as_svg
from gnn_encoder.presenting.training import histories, kept_table, training_panel


def training() -> Section:
    """The learning curve of every model, and where it had its best weights."""
    found, curves = Section(), histories()
    if table := kept_table(curves):
        found.tables.append(table)
    for name, path in curves.items():
        found.show(name, as_svg(training_panel(name, path)))
    if not found.figures:
        found.miss("No model has been trained", "dvc repro evaluate@gnn_encoder")
    return found


def pair() -> Section:
    """PAIR's similarities and pseudo-labels."""
    found = Section()
    similarities = read_json(project.PAIR_SIMILARITY / "similarity.json")
    labels = read_json(project.PAIR_LABELS / "statistics.json")
    if similarities:
        found.show(similarity.TITLE, as_svg(similarity.similarity_panel(similarities)))
    else:
        found.miss("The similarities have not been measured", "dvc repro pair_similarity")
    if labels:
        found.tables += blocks(labels, "Pseudo-labels")
    else:
        found.miss("There are no pseudo-labels", "dvc repro pair_label")
    return found


def dual_cross(section: Evaluate) -> Section:
    """Dual-Cross-Encoder's generated queries and its views."""
    found = Section()
    quality = read_json(project.GENERATED / "quality.json")
    if quality:
        found.tables += blocks(quality, "Generated queries compared with the dev queries")
    else:
        found.miss("No queries have been generated", "dvc repro choose_queries")
    (tested,) = parse([section.significance])
    curves = [path for name in registry().views if (path := project.VIEWS_CURVE / name / "curve.csv").is_file()]
    for curve in map(pl.read_csv, curves):
        found.show(views.TITLE, *map(as_svg, views.views_panels(curve, tested)))
        found.tables.append(views.views_table(curve))
    if not curves:
        found.miss("Numbers of views have not been compared", "dvc repro views_curve")
    return found
