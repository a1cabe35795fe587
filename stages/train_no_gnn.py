"""train_no_gnn: the control: M_de trained further with the same budget but without a graph (the paper's "w/o GNN")."""

from gnn_encoder.gnn.train import Setup, train_control
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.project import MAIN
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.text.corpus import open_queries
from gnn_encoder.train.loop import write_history


def main(stage: Stage) -> None:
    """Train the control and save its best weights."""
    setup = Setup(project.base(MAIN), stage.params)
    queries = open_queries(project.queries("train"), setup.encoder)
    history = train_control(setup, queries, stage.work)
    setup.encoder.save(stage.scratch)
    write_history(stage.scratch / "history.csv", history)


if __name__ == "__main__":
    run(main, shared=True)
