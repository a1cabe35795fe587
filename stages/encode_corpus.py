"""encode_corpus: query-interactive passage embeddings h'_p of the whole corpus (Eq. 6-10 over the full graph)."""

from gnn_encoder import project
from gnn_encoder.encoders.corpus import alone, embed_questions, encode_corpus, transform_corpus
from gnn_encoder.encoders.dual_encoder import DualEncoder
from gnn_encoder.encoders.texts import open_passages, open_queries
from gnn_encoder.graph.artifacts import open_graph, open_graph_features, open_neighbourhood
from gnn_encoder.graph.corpus import CorpusGNN
from gnn_encoder.graph.network import QueryPassageGNN
from gnn_encoder.params import load_params
from gnn_encoder.stage import output, run
from gnn_encoder.storage.arrays import check_shape
from gnn_encoder.storage.fingerprint import fingerprint


def main() -> None:
    """Encode passages with the jointly trained encoder, inform them, and write the matrix that is indexed."""
    params = load_params()
    cached = project.embeddings("dual_encoder")
    inputs = [
        *(project.PASSAGES, project.queries("train"), project.qrels("train"), project.MGT, project.DUAL_ENCODER),
        *(cached, project.GRAPH, project.EDGE_FEATURES),
    ]
    sections = {
        "encode_corpus": params.encode_corpus,
        "max_neighbours": params.mgt.max_neighbours,
        "cache_passages": params.cache_passages,
        "precision": params.encoder.precision,
    }
    with output(project.embeddings("gnn_encoder"), inputs, sections) as scratch:
        encoder = DualEncoder.load(project.MGT / "encoder", precision=params.encoder.precision).for_inference()
        gnn = QueryPassageGNN.load(project.MGT)
        graph = open_graph()
        check_shape(cached, (graph.m, gnn.config.dimension))
        near = open_neighbourhood(
            graph,
            open_graph_features(graph) if gnn.config.edge_features == "cross_encoder" else None,
            labelled_edges=params.encode_corpus.labelled_edges,
            max_neighbours=params.mgt.max_neighbours,
            self_loops_only=gnn.config.graph == "self_loops",
        )
        questions = embed_questions(encoder, open_queries("train", encoder, params), params.encoder.batch_tokens)
        inform = CorpusGNN(gnn.to(near.device), near, questions)
        manifest = {"model_fingerprint": fingerprint(project.MGT), "input_fingerprint": fingerprint(*inputs)}
        dtype = params.cache_passages.dtype
        if DualEncoder.same_weights(project.MGT / "encoder", project.DUAL_ENCODER):
            # Phase two kept M_de's weights: what it would recompute stands in the cache.
            transform_corpus(cached, scratch, dtype=dtype, manifest=manifest, transform=inform)
        else:
            inputs = alone(encoder, open_passages(encoder, params))
            batch_tokens = params.encoder.batch_tokens
            encode_corpus(
                encoder, inputs, scratch, dtype=dtype, batch_tokens=batch_tokens, manifest=manifest, transform=inform
            )


if __name__ == "__main__":
    run(main)
