"""Output of the stages `evaluate` and `compare`: tables in the terminal, figures as PNG and as CSV for `dvc plots`."""

import logging
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from gnn_encoder.evaluation.ceiling import Ceiling
from gnn_encoder.evaluation.claim import Claim
from gnn_encoder.evaluation.cost_record import Costs
from gnn_encoder.evaluation.measures import parse
from gnn_encoder.evaluation.params import Evaluate
from gnn_encoder.evaluation.slices import Sliced
from gnn_encoder.evaluation.values import Comparisons, Means
from gnn_encoder.presenting.ceiling import ceiling_table
from gnn_encoder.presenting.claim import advice, claim_sentence
from gnn_encoder.presenting.compared import rows_of
from gnn_encoder.presenting.costs import cost_panels
from gnn_encoder.presenting.figure import write_png
from gnn_encoder.presenting.means import means_of
from gnn_encoder.presenting.names import name_of
from gnn_encoder.presenting.recall import recall_panel, write_recall_csv
from gnn_encoder.presenting.results import Results, results_table, systems_panel
from gnn_encoder.presenting.slices import split_table
from gnn_encoder.presenting.tables import Table, titled

log = logging.getLogger(__name__)


def log_table(table: Table) -> None:
    """Print a table."""
    log.info("\n%s", titled(table))


def log_results(
    title: str, means: dict[str, Means], tested: dict[str, Comparisons], own: dict[str, Comparisons], section: Evaluate
) -> None:
    """Print one table per split, with comparisons to M_de (`tested`) and to the baselines of branches (`own`)."""
    (measure,) = parse([section.significance])
    for split, systems in means.items():
        rows = rows_of(systems, {}, tested.get(split, {}), own.get(split, {}))
        log_table(results_table(Results(title=name_of(title), split=split, rows=rows), measure))


def log_ceiling(found: dict[str, Ceiling]) -> None:
    """Print one table per split."""
    for split, one in found.items():
        log_table(ceiling_table(one, split))


def log_slices(branch: str, found: dict[str, Sliced], systems: Sequence[str]) -> None:
    """Print one table per split, with a column for each of some systems."""
    for split, one in found.items():
        log_table(split_table(branch, one, split, systems))


def log_claim(found: Claim) -> None:
    """Print the claim, and last what is better than what was trained, if anything is."""
    log.info("\n%s", claim_sentence(found))
    if told := advice(found):
        log.warning("\n%s", told)


def write_plots(folder: Path, values: pl.DataFrame, means: dict[str, Means], section: Evaluate) -> None:
    """Write the measures and recall as CSV, and the figures of systems and of recall as PNG, one panel per split."""
    (measure,) = parse([section.significance])
    folder.mkdir(parents=True, exist_ok=True)
    write_measures_csv(folder / "measures.csv", means)
    write_recall_csv(folder / "recall.csv", means)
    measured = means_of(values.filter(measure=measure))
    write_png(folder / "systems.png", [systems_panel(of, split, measure) for split, of in measured.items()])
    write_png(folder / "recall.png", [recall_panel(of, split) for split, of in means.items()])


def write_measures_csv(path: Path, means: dict[str, Means]) -> None:
    """Write one row per system, split and measure. `means`: split -> system -> measure -> value in 0..1."""
    rows = [
        (system, split, measure, value)
        for split, systems in means.items()
        for system, values in systems.items()
        for measure, value in values.items()
    ]
    pl.DataFrame(rows, schema=["system", "split", "measure", "value"], orient="row").write_csv(path)


def draw_costs(path: Path, values: pl.DataFrame, costs: dict[str, Costs], section: Evaluate) -> None:
    """Write quality against costs as PNG. `values`: columns system, split, qid, measure, value, of the test queries."""
    (measure,) = parse([section.significance])
    write_png(path, cost_panels(means_of(values.filter(measure=measure))["test"], costs, measure))
