"""The section Slices."""

from gnn_encoder.evaluation.slices import Sliced
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.systems import MAIN, registry
from gnn_encoder.presenting.artifacts import read_records
from gnn_encoder.presenting.names import name_of
from gnn_encoder.presenting.page.section import Section
from gnn_encoder.presenting.pictures import as_svg
from gnn_encoder.presenting.slices import slices_panel, split_table


def slices() -> Section:
    """The tables of each branch, test before dev, and figures of GNN-encoder's differences from its baseline."""
    found = Section()
    for branch in registry().branches:
        sliced = read_records(project.METRICS / branch / "slices.json", dict[str, Sliced]) or {}
        for split, of in reversed(sliced.items()):
            found.tables.append(split_table(branch, of, split))
        if branch == MAIN and sliced:
            pictures = [as_svg(slices_panel(of, split, MAIN)) for split, of in reversed(sliced.items())]
            found.show(f"{name_of(MAIN)} by slices, with 95% intervals; test queries before dev queries", *pictures)
    if not found.tables:
        found.miss("No slices have been evaluated", f"dvc repro evaluate@{MAIN}")
    return found
