"""train_mgt: GNN and dual-encoder by Masked Graph Training (section 3.4, Algorithm 1)."""

from gnn_encoder import distributed, project
from gnn_encoder.mgt.phases import train_gnn_encoder
from gnn_encoder.params import load_params
from gnn_encoder.stage import output, run
from gnn_encoder.training.history import write_history


def main() -> None:
    """Train both phases and save the best of them."""
    params = load_params()
    inputs = [
        *(
            project.PASSAGES,
            project.queries("train"),
            project.qrels("train"),
            project.queries("dev"),
            project.qrels("dev"),
        ),
        *(
            project.EXAMPLES,
            project.DUAL_ENCODER,
            project.embeddings("dual_encoder"),
            project.GRAPH,
            project.EDGE_FEATURES,
        ),
    ]
    sections = {"mgt": params.mgt, "encoder": params.encoder, "seed": params.seed}
    with output(project.MGT, inputs, sections) as scratch:
        encoder, gnn, history = train_gnn_encoder(params, scratch)
        if distributed.is_first():
            encoder.save(scratch / "encoder")
            gnn.save(scratch)
            write_history(scratch / "history.csv", history)


if __name__ == "__main__":
    run(main)
