"""build_graph SYSTEM: link every question of the graph to its top-k passages by M_de (section 3.2)."""

import sys

from gnn_encoder.core import project
from gnn_encoder.core.params import load_params
from gnn_encoder.core.records import CANDIDATES
from gnn_encoder.core.stage import output, run
from gnn_encoder.core.storage.tables import candidates_table, write_table
from gnn_encoder.graph.nodes import QUESTIONS
from gnn_encoder.retrieval import top_passages


def main() -> None:
    """Search M_de's passage matrix; the results are the edges."""
    params = load_params()
    system = project.gnn_system(project.chosen(sys.argv[1:], project.GRAPHS), params)
    inputs = [system.nodes, project.ENCODERS[system.base], project.embeddings(system.base)]
    graph = params.build_graph
    sections = {"k": system.k, "factory": graph.factory, "seed": params.seed}
    with output(system.graph, inputs, sections) as scratch:
        passages, scores = top_passages(
            system.base,
            system.nodes / QUESTIONS,
            system.k,
            params,
            factory=graph.factory,
            section="evidence" if system.name == project.WIDEST else "build_graph",
            parameter="k",
        )
        write_table(scratch / "edges.parquet", CANDIDATES, [candidates_table(passages, scores)])


if __name__ == "__main__":
    run(main)
