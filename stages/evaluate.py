"""evaluate: measures of every system's runs, significance against M_de, tables and pictures."""

import logging
from dataclasses import asdict
from pathlib import Path

import polars as pl

from gnn_encoder import project
from gnn_encoder.evaluation import report
from gnn_encoder.evaluation.measures import mean, parse, per_query
from gnn_encoder.evaluation.runs import read_run
from gnn_encoder.evaluation.significance import compare_all
from gnn_encoder.params import Evaluate, load_params
from gnn_encoder.records import QRELS, open_table
from gnn_encoder.stage import WORK, output, run
from gnn_encoder.storage.atomic import publish_files, write_json

log = logging.getLogger(__name__)
BASELINE = "dual_encoder"
SPLITS = ("dev", "test")
HISTORY = project.MGT / "history.csv"


def main() -> None:
    """Measure, compare, write metrics and plots, print the table."""
    section = load_params().evaluate
    (tested,) = parse([section.significance], "evaluate.significance")
    runs = [project.run_file(system, split) for system in project.SYSTEMS for split in SPLITS]
    histories = [HISTORY] if HISTORY.is_file() else []
    inputs = [*map(project.qrels, SPLITS), *runs, *histories]
    with output(project.EVALUATION, inputs, {"evaluate": section}) as scratch:
        values = measure_all(section)
        values.write_parquet(scratch / "per_query.parquet")
        reported = values.filter(pl.col("measure").is_in(list(parse(section.measures))))
        means = {split: means_by_system(reported, split) for split in SPLITS}
        compared = {split: compare_all(values.filter(pl.col("split") == split), tested, BASELINE) for split in SPLITS}
        metrics, plots = scratch / WORK / "metrics", scratch / WORK / "plots"
        for split in SPLITS:
            write_json(metrics / f"{split}.json", means[split])
            table = report.markdown_table(means[split], compared[split], tested, BASELINE)
            log.info("\n%s questions, points of 100\n\n%s", split, table)
        significance = {split: {name: asdict(c) for name, c in systems.items()} for split, systems in compared.items()}
        write_json(metrics / "significance.json", significance)
        write_plots(plots, values, means, tested)
        publish_files(metrics, project.METRICS)
        publish_files(plots, project.PLOTS)


def measure_all(section: Evaluate) -> pl.DataFrame:
    """Columns system, split, qid, measure, value."""
    names = list(parse([*section.measures, section.significance]))
    parts = []
    for split in SPLITS:
        judgements = pl.DataFrame(open_table(project.qrels(split), QRELS).read())
        for system in project.SYSTEMS:
            table = per_query(read_run(project.run_file(system, split)), judgements, names)
            parts.append(table.select(pl.lit(system).alias("system"), pl.lit(split).alias("split"), *table.columns))
    return pl.concat(parts)


def means_by_system(values: pl.DataFrame, split: str) -> report.Means:
    """Mean of every measure over a split's questions, by system."""
    part = values.filter(pl.col("split") == split)
    return {system: mean(part.filter(pl.col("system") == system)) for system in project.SYSTEMS}


def write_plots(folder: Path, values: pl.DataFrame, means: dict[str, report.Means], tested: str) -> None:
    """CSV for `dvc plots`, PNG for those without a browser."""
    folder.mkdir(parents=True, exist_ok=True)
    report.write_measures_csv(folder / "measures.csv", means)
    report.write_recall_csv(folder / "recall.csv", means)
    report.draw_bars(folder / "systems.png", values, tested)
    report.draw_recall(folder / "recall.png", means)
    if HISTORY.is_file():
        report.draw_training(folder / "training.png", pl.read_csv(HISTORY))


if __name__ == "__main__":
    run(main)
