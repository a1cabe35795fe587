"""build_graph: link every training question to its top-k passages by M_de (section 3.2)."""

from gnn_encoder import project
from gnn_encoder.params import load_params
from gnn_encoder.records import CANDIDATES
from gnn_encoder.retrieval import top_passages
from gnn_encoder.stage import output, run
from gnn_encoder.storage.tables import candidates_table, write_table


def main() -> None:
    """Search M_de's passage matrix; the results are the edges."""
    params = load_params()
    inputs = [project.queries("train"), project.DUAL_ENCODER, project.embeddings("dual_encoder")]
    with output(project.GRAPH, inputs, {"build_graph": params.build_graph, "seed": params.seed}) as scratch:
        graph = params.build_graph
        passages, scores = top_passages(
            "dual_encoder", graph.k, params, factory=graph.factory, section="build_graph", parameter="k"
        )
        write_table(scratch / "edges.parquet", CANDIDATES, [candidates_table(passages, scores)])


if __name__ == "__main__":
    run(main)
