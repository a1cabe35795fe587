"""fuse SYSTEM: the runs of BM25 and of the dense system that is best on dev, fused."""

from gnn_encoder.baselines.hybrid import write_hybrid
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.pipeline.systems import registry


def main(stage: Stage) -> None:
    """Choose the dense system, of those whose runs dvc.yaml declares, and the fusion; write the runs of both splits."""
    dense = [system for system in registry().dense if project.RUNS / system in stage.inputs]
    write_hybrid(stage.key, dense, stage.params, stage.scratch)


if __name__ == "__main__":
    run(main)
