"""train_no_gnn: the control: M_de trained further with the same budget but without a graph (the paper's "w/o GNN")."""

from gnn_encoder.mgt.phases import train_control
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.training.history import write_history


def main(stage: Stage) -> None:
    """Train the control and save its best weights."""
    encoder, history = train_control(stage.params, stage.scratch)
    encoder.save(stage.scratch)
    write_history(stage.scratch / "history.csv", history)


if __name__ == "__main__":
    run(main, shared=True)
