"""train_mgt SYSTEM: GNN and dual-encoder by Masked Graph Training (section 3.4, Algorithm 1)."""

from gnn_encoder.graph.artifacts import GraphArtifacts
from gnn_encoder.mgt.phases import train_gnn_encoder
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.training.history import write_history


def main(stage: Stage) -> None:
    """Train both phases and save the best weights."""
    encoder, gnn, history = train_gnn_encoder(GraphArtifacts(name=stage.key), stage.params, stage.scratch)
    encoder.save(stage.scratch / "encoder")
    gnn.save(stage.scratch)
    write_history(stage.scratch / "history.csv", history)


if __name__ == "__main__":
    run(main, shared=True)
