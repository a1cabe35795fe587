"""untouched: the base model as a dual-encoder as it comes, without any training."""

from gnn_encoder.models.untouched import untouched
from gnn_encoder.pipeline.stage import Stage, run


def main(stage: Stage) -> None:
    """Save the base model with its own pooling and similarity."""
    untouched(stage.params.encoder, stage.params.untouched).save(stage.scratch)


if __name__ == "__main__":
    run(main)
