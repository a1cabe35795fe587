"""trial NAME: the measures of one variant of GNN-encoder, trained once with each seed of the evidence."""

import polars as pl

from gnn_encoder.core import distributed
from gnn_encoder.evidence.params import EXPLAINED
from gnn_encoder.evidence.trials import run_with_seed
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.stage import Stage, run


def main(stage: Stage) -> None:
    """Train and measure the variant once per seed; runs that an interrupted stage finished are kept."""
    params, runs = stage.params, []
    for seed in range(params.seed, params.seed + params.evidence.seeds):
        kept = stage.scratch / "attention.parquet" if stage.key in EXPLAINED and seed == params.seed else None
        runs.append(run_with_seed(stage.key, params, seed, stage.work / f"seed-{seed}", attention=kept))
    if distributed.is_first():
        pl.concat(runs).write_parquet(stage.scratch / project.VALUES)


if __name__ == "__main__":
    run(main, shared=True)
