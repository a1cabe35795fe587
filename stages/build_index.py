"""build_index SYSTEM: the FAISS index of a system's passage embeddings, and what it finds for dev and test queries."""

from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.search.faiss_index import index_system
from gnn_encoder.text.corpus import embed_judged, load_encoder


def main(stage: Stage) -> None:
    """Index the system's passages, encode the queries with the system's encoder and search the index."""
    params, system = stage.params, stage.key
    encoder, matrix = project.encoder(system), project.embeddings(system)
    index, runs = (stage.unfinished(place(system)) for place in (project.index, project.runs))
    queries = embed_judged(load_encoder(encoder, params.encoder), params.encoder)
    index_system(queries, system, encoder, matrix, index, runs, params)


if __name__ == "__main__":
    run(main)
