"""trial KIND NAME: what a system of the ablations or of a sweep is worth, trained with each of the evidence's seeds."""

import sys

import polars as pl

from gnn_encoder.core import distributed, project
from gnn_encoder.core.params import load_params
from gnn_encoder.core.stage import WORK, output, run
from gnn_encoder.evidence.runs import run_with_seed
from gnn_encoder.evidence.trials import find_trial


def main() -> None:
    """Run it once a seed; finished runs stay over a kill."""
    params = load_params()
    trial = find_trial(sys.argv[1:], params)
    with output(trial.folder, trial.inputs, trial.sections) as scratch:
        runs = []
        for seed in trial.seeds:
            kept = scratch / "attention.parquet" if trial.explained and seed == params.seed else None
            runs.append(run_with_seed(trial, seed, scratch / WORK / f"seed-{seed}", attention=kept))
        if distributed.is_first():
            pl.concat(runs).write_parquet(scratch / project.VALUES)


if __name__ == "__main__":
    run(main)
