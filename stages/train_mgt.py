"""train_mgt SYSTEM: GNN and dual-encoder by Masked Graph Training (section 3.4, Algorithm 1)."""

import sys

from gnn_encoder.core import distributed, project
from gnn_encoder.core.params import load_params
from gnn_encoder.core.stage import output, run
from gnn_encoder.mgt.phases import train_gnn_encoder
from gnn_encoder.training.history import write_history


def main() -> None:
    """Train both phases and save the best of them."""
    params = load_params()
    system = project.gnn_system(project.chosen(sys.argv[1:], project.GNN_SYSTEMS), params)
    inputs = [
        *(
            project.PASSAGES,
            project.queries("train"),
            project.qrels("train"),
            project.queries("dev"),
            project.POSITIVES,
        ),
        *(
            project.EXAMPLES,
            project.ENCODERS[system.base],
            project.embeddings(system.base),
            system.nodes,
            system.graph,
            system.edge_features,
        ),
    ]
    sections = {"mgt": params.mgt, "base": system.base, "encoder": params.encoder, "seed": params.seed}
    sections |= {"answers": params.evaluate.answers}
    with output(system.model, inputs, sections) as scratch:
        encoder, gnn, history = train_gnn_encoder(system, params, scratch)
        if distributed.is_first():
            encoder.save(scratch / "encoder")
            gnn.save(scratch)
            write_history(scratch / "history.csv", history)


if __name__ == "__main__":
    run(main)
