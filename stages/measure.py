"""measure SYSTEM: the measures of the system's runs, for each query."""

import polars as pl

from gnn_encoder.evaluation.judge import measure_run
from gnn_encoder.evaluation.measures import parse
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.stage import Stage, run


def main(stage: Stage) -> None:
    """Measure the runs of both judged splits."""
    section = stage.params.evaluate
    names = list(parse(section.measures) | parse([section.significance], "evaluate.significance"))
    values = [measure_run(stage.key, split, names, section) for split in project.JUDGED]
    pl.concat(values).write_parquet(stage.scratch / project.VALUES)


if __name__ == "__main__":
    run(main)
