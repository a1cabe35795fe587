"""embed_edges SYSTEM: M_ce's [CLS] embedding of every edge and of the self-loops that can matter (section 3.2)."""

import sys

from gnn_encoder.core import project
from gnn_encoder.core.params import load_params
from gnn_encoder.core.stage import output, run
from gnn_encoder.edges import embed_graph


def main() -> None:
    """Embed the edges of the system's graph."""
    params = load_params()
    system = project.gnn_system(project.chosen(sys.argv[1:], project.OWN_GRAPHS), params)
    inputs = [project.PASSAGES, system.nodes, system.graph, project.CROSS_ENCODER]
    sections = {"max_length": params.train_cross_encoder.max_length, "precision": params.encoder.precision}
    with output(system.edge_features, inputs, sections) as scratch:
        embed_graph(system, scratch, params)


if __name__ == "__main__":
    run(main)
