"""train_cross_encoder: M_ce, on labelled positives against the first retriever's candidates (section 3.4)."""

from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.train.cross_encoder import train_cross_encoder


def main(stage: Stage) -> None:
    """Train M_ce and keep its best weights."""
    train_cross_encoder(stage.params, stage.scratch)


if __name__ == "__main__":
    run(main, shared=True)
