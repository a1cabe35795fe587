"""train_no_gnn: the control: M_de trained further with the same budget but without a graph (the paper's "w/o GNN")."""

from gnn_encoder.mgt.phases import train_control
from gnn_encoder.pipeline.graphs import open_given
from gnn_encoder.pipeline.project import MAIN, registry, title_of
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.train.loop import write_history


def main(stage: Stage) -> None:
    """Train the control and save its best weights."""
    given = open_given(registry().systems[MAIN].base, stage.params)
    history = train_control(given, stage.params.train_no_gnn, stage.work, title=title_of("no_gnn"))
    given.encoder.save(stage.scratch)
    write_history(stage.scratch / "history.csv", history)


if __name__ == "__main__":
    run(main, shared=True)
