"""embed_edges GRAPH: M_ce's [CLS] embeddings of all edges and of the self-loops that have an effect (section 3.2)."""

import logging

from gnn_encoder.gnn.edge_features import embed_graph
from gnn_encoder.gnn.graph import open_graph, queries_of
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.text.corpus import open_passages, open_queries
from gnn_encoder.text.cross_encoder import CrossEncoder

log = logging.getLogger(__name__)


def main(stage: Stage) -> None:
    """Embed the graph's edges and self-loops."""
    params, system = stage.params, stage.key
    if params.mgt.edge_features != "cross_encoder":
        log.info("mgt.edge_features is %s: no features of M_ce are needed", params.mgt.edge_features)
        return
    model = CrossEncoder.load(project.CROSS_ENCODER, precision=params.encoder.precision).for_inference()
    queries, passages = open_queries(queries_of(system), model), open_passages(model)
    sizes = {"max_length": params.train_cross_encoder.max_length, "batch_tokens": params.encoder.batch_tokens}
    embed_graph(model, open_graph(system), queries, passages, stage.scratch, **sizes)


if __name__ == "__main__":
    run(main, shared=True)
