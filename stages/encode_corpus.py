"""encode_corpus SYSTEM: query-interactive embeddings h'_p of all passages (Eq. 6-10 over the full graph)."""

import sys

from gnn_encoder import project
from gnn_encoder.encoders.corpus import alone, embed_questions, encode_corpus, transform_corpus
from gnn_encoder.encoders.dual_encoder import DualEncoder
from gnn_encoder.encoders.texts import open_passages, open_queries
from gnn_encoder.graph.artifacts import open_neighbourhood
from gnn_encoder.graph.corpus import CorpusGNN
from gnn_encoder.graph.network import QueryPassageGNN
from gnn_encoder.graph.nodes import QUESTIONS, read_nodes
from gnn_encoder.params import load_params
from gnn_encoder.stage import output, run
from gnn_encoder.storage.arrays import check_shape
from gnn_encoder.storage.fingerprint import fingerprint
from gnn_encoder.storage.tables import count_rows


def main() -> None:
    """Encode passages with the jointly trained encoder, inform them, and write the matrix that is indexed."""
    params = load_params()
    system = project.gnn_system(project.chosen(sys.argv[1:], project.GNN_SYSTEMS), params)
    cached, base = project.embeddings(system.base), project.ENCODERS[system.base]
    inputs = [
        *(project.PASSAGES, project.queries("train"), project.qrels("train"), system.model, base),
        *(cached, system.nodes, system.graph, system.edge_features),
    ]
    sections = {
        "encode_corpus": params.encode_corpus,
        "max_neighbours": params.mgt.max_neighbours,
        "cache_passages": params.cache_passages,
        "precision": params.encoder.precision,
    }
    with output(project.embeddings(system.name), inputs, sections) as scratch:
        encoder = DualEncoder.load(system.model / "encoder", precision=params.encoder.precision).for_inference()
        gnn = QueryPassageGNN.load(system.model)
        check_shape(cached, (count_rows(project.PASSAGES), gnn.config.dimension))
        near = open_neighbourhood(
            system,
            read_nodes(system.nodes),
            edge_features=gnn.config.edge_features,
            labelled_edges=params.encode_corpus.labelled_edges,
            max_neighbours=params.mgt.max_neighbours,
            self_loops_only=gnn.config.graph == "self_loops",
        )
        questions = embed_questions(
            encoder, open_queries(system.nodes / QUESTIONS, encoder), params.encoder.batch_tokens
        )
        inform = CorpusGNN(gnn.to(near.device), near, questions)
        manifest = {"model_fingerprint": fingerprint(system.model), "input_fingerprint": fingerprint(*inputs)}
        dtype = params.cache_passages.dtype
        if DualEncoder.same_weights(system.model / "encoder", base):
            # Phase two kept M_de's weights: what it would recompute stands in the cache.
            transform_corpus(cached, scratch, dtype=dtype, manifest=manifest, transform=inform)
        else:
            inputs = alone(encoder, open_passages(encoder))
            batch_tokens = params.encoder.batch_tokens
            encode_corpus(
                encoder, inputs, scratch, dtype=dtype, batch_tokens=batch_tokens, manifest=manifest, transform=inform
            )


if __name__ == "__main__":
    run(main)
