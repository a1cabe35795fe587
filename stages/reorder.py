"""reorder SYSTEM: the runs of another system, ranked anew by what the training labels say of passages."""

from gnn_encoder.baselines.label_prior import write_label_prior
from gnn_encoder.baselines.logged_neighbours import write_logged_neighbours
from gnn_encoder.pipeline.stage import Stage, run

WAYS = {"label_prior": write_label_prior, "logged_neighbours": write_logged_neighbours}


def main(stage: Stage) -> None:
    """Choose the setting on dev and write the runs of both splits."""
    WAYS[stage.key](stage.key, stage.item["base"], stage.params, stage.scratch)


if __name__ == "__main__":
    run(main)
