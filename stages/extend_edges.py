"""extend_edges SYSTEM: the same for a graph around the main one, whose embeddings serve for what both have."""

import sys

from gnn_encoder.core import project
from gnn_encoder.core.params import load_params
from gnn_encoder.core.stage import output, run
from gnn_encoder.edges import embed_graph


def main() -> None:
    """Take what the main graph has, embed the rest."""
    params = load_params()
    system = project.gnn_system(project.chosen(sys.argv[1:], project.WIDER_GRAPHS), params)
    main_one = project.gnn_system("gnn_encoder", params)
    inputs = [project.PASSAGES, system.nodes, system.graph, project.CROSS_ENCODER]
    inputs += [main_one.nodes, main_one.graph, main_one.edge_features]
    sections = {"max_length": params.train_cross_encoder.max_length, "precision": params.encoder.precision}
    with output(system.edge_features, inputs, sections) as scratch:
        embed_graph(system, scratch, params, other=main_one)


if __name__ == "__main__":
    run(main)
