"""measure SYSTEM: what the system's runs are worth, question by question."""

import sys

import polars as pl

from gnn_encoder.core import distributed, project
from gnn_encoder.core.params import Evaluate, load_params
from gnn_encoder.core.stage import output, run
from gnn_encoder.evaluation.judge import measure_split
from gnn_encoder.evaluation.measures import parse
from gnn_encoder.evaluation.runs import read_run


def main() -> None:
    """Measure the runs of both judged splits."""
    section = load_params().evaluate
    system = project.chosen(sys.argv[1:], tuple(project.BRANCH_OF))
    names = list(parse(section.measures) | parse([section.significance], "evaluate.significance"))
    inputs = [
        *(project.PASSAGES, *map(project.queries, project.JUDGED), *map(project.qrels, project.JUDGED)),
        *(project.run_file(system, split) for split in project.JUDGED),
    ]
    with output(project.measured(system), inputs, {"evaluate": section}) as scratch:
        if distributed.is_first():
            pl.concat([measure(system, split, names, section) for split in project.JUDGED]).write_parquet(
                scratch / project.VALUES
            )


def measure(system: str, split: str, names: list[str], section: Evaluate) -> pl.DataFrame:
    """Columns system, split, qid, measure, value."""
    found = read_run(project.run_file(system, split))
    table = measure_split(found, split, names, section)
    if project.is_sampled(system):
        table = table.filter(pl.col("qid").is_in(found["qid"].unique().implode()))
    return table.select(pl.lit(system).alias("system"), pl.lit(split).alias("split"), *table.columns)


if __name__ == "__main__":
    run(main)
