"""embed_edges: M_ce's [CLS] embeddings of all edges and of the self-loops that have an effect (section 3.2)."""

import logging
from functools import partial

import numpy as np

from gnn_encoder.gnn.graph import open_graph
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.text.batches import Inputs
from gnn_encoder.text.corpus import open_passages, open_queries
from gnn_encoder.text.cross_encoder import CrossEncoder, embed_pairs

log = logging.getLogger(__name__)


def main(stage: Stage) -> None:
    """Write the features of the edges, in the order of the edges table, and of the self-loops.

    All queries have a self-loop feature, but only those passages that some query retrieved: any other passage attends
    to itself alone, with weight 1 whatever the feature. Parts that an interrupted run left are kept.
    """
    params, folder = stage.params, stage.scratch
    if params.mgt.edge_features != "cross_encoder":
        log.info("mgt.edge_features is %s: no features of M_ce are needed", params.mgt.edge_features)
        return
    model = CrossEncoder.load(project.CROSS_ENCODER, precision=params.encoder.precision).for_inference()
    queries, passages, graph = open_queries(project.NODES, model), open_passages(model), open_graph()
    of = partial(Inputs.pairs, template=model.template, length=params.train_cross_encoder.max_length)
    embed = partial(embed_pairs, model, batch_tokens=params.encoder.batch_tokens)
    query, passage = np.repeat(np.arange(graph.n), graph.k), graph.passages.reshape(-1)
    embed(of(queries, query, passages, passage), folder / "edges", {"query": query, "passage": passage})
    nodes = ("query_loops", queries, np.arange(graph.n)), ("passage_loops", passages, np.unique(passage))
    for name, tokens, ends in nodes:
        embed(of(tokens, ends, tokens, ends), folder / name, {"node": ends})


if __name__ == "__main__":
    run(main, shared=True)
