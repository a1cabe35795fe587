"""train_mgt SYSTEM: GNN and dual-encoder by Masked Graph Training (section 3.4, Algorithm 1)."""

from gnn_encoder.gnn.graph import open_nodes, queries_of
from gnn_encoder.gnn.neighbourhood import Neighbourhood
from gnn_encoder.gnn.train import Setup, train_gnn_encoder
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.text.corpus import open_queries
from gnn_encoder.train.loop import HISTORY, write_history


def main(stage: Stage) -> None:
    """Train both phases and save the best weights."""
    params, mgt, system = stage.params, stage.params.mgt, stage.key
    setup, near = Setup(project.base(system), params), Neighbourhood.open(system, mgt)
    queries = open_queries(queries_of(system), setup.encoder)
    gnn, history = train_gnn_encoder(setup, near, queries, open_nodes(system), stage.work)
    setup.encoder.save(stage.scratch / "encoder")
    gnn.save(stage.scratch)
    write_history(stage.scratch / HISTORY, history)


if __name__ == "__main__":
    run(main, shared=True)
