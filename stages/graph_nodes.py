"""graph_nodes KIND: the questions of the graph: training questions, a sample of the generated ones, or both."""

import sys

from gnn_encoder.core import distributed, project
from gnn_encoder.core.params import load_params
from gnn_encoder.core.stage import output, run
from gnn_encoder.core.storage.tables import count_rows
from gnn_encoder.graph.nodes import draw, write_nodes


def main() -> None:
    """Write the nodes' texts and where the generated ones come from."""
    params = load_params()
    kind = project.chosen(sys.argv[1:], project.NODES)
    size = params.build_graph.generated
    generated = project.GENERATED / "questions.parquet" if kind != "training" else None
    inputs = [project.PASSAGES, project.queries("train"), *([generated] if generated else [])]
    with output(project.nodes(kind), inputs, {"generated": size, "seed": params.seed}) as scratch:
        if distributed.is_first():
            count = count_rows(generated) if generated else 0
            write_nodes(
                scratch,
                training=project.queries("train") if kind != "generated" else None,
                generated=generated,
                views=max(1, count // count_rows(project.PASSAGES)),
                chosen=draw(count, size, params.seed),
            )


if __name__ == "__main__":
    run(main)
