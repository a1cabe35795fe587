"""embed_edges GRAPH: M_ce's [CLS] embeddings of all edges and of the self-loops that have an effect (section 3.2)."""

import logging

from gnn_encoder.graph.artifacts import GraphArtifacts
from gnn_encoder.graph.edges import embed_graph
from gnn_encoder.pipeline.stage import Stage, run

log = logging.getLogger(__name__)


def main(stage: Stage) -> None:
    """Embed the graph's edges; features of edges that the graph `around` (systems.yaml) has too are taken from it."""
    if stage.params.mgt.edge_features != "cross_encoder":
        log.info("mgt.edge_features is %s: no features of M_ce are needed", stage.params.mgt.edge_features)
        return
    around = stage.item["around"]
    known = GraphArtifacts(name=around) if around != stage.key else None
    embed_graph(GraphArtifacts(name=stage.key), stage.scratch, stage.params, around=known)


if __name__ == "__main__":
    run(main, shared=True)
