"""train_mgt SYSTEM: GNN and dual-encoder by Masked Graph Training (section 3.4, Algorithm 1)."""

from gnn_encoder.mgt.phases import train_gnn_encoder
from gnn_encoder.pipeline.graphs import GraphArtifacts, open_given
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.text.opening import open_queries
from gnn_encoder.train.loop import write_history


def main(stage: Stage) -> None:
    """Train both phases and save the best weights."""
    params, source = stage.params, GraphArtifacts(name=stage.key)
    given = open_given(source.base, params)
    gnn, history = train_gnn_encoder(
        given,
        source.data(params.mgt.edge_features),
        open_queries(source.queries, given.encoder),
        stage.work,
        labelled=params.build_graph.labelled,
    )
    given.encoder.save(stage.scratch / "encoder")
    gnn.save(stage.scratch)
    write_history(stage.scratch / "history.csv", history)


if __name__ == "__main__":
    run(main, shared=True)
