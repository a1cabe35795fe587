"""encode_corpus SYSTEM: query-interactive embeddings h'_p of all passages (Eq. 6-10 over the full graph)."""

import sys

from gnn_encoder.core import project
from gnn_encoder.core.params import load_params
from gnn_encoder.core.stage import output, run
from gnn_encoder.core.storage.fingerprint import fingerprint
from gnn_encoder.informed import inform_corpus


def main() -> None:
    """Encode the system's passages and inform them."""
    params = load_params()
    system = project.gnn_system(project.chosen(sys.argv[1:], project.GNN_SYSTEMS), params)
    inputs = [
        *(project.PASSAGES, project.queries("train"), project.qrels("train"), system.model),
        *(project.ENCODERS[system.base], project.embeddings(system.base)),
        *(system.nodes, system.graph, system.edge_features),
    ]
    sections = {
        "encode_corpus": params.encode_corpus,
        "max_neighbours": params.mgt.max_neighbours,
        "cache_passages": params.cache_passages,
        "precision": params.encoder.precision,
    }
    with output(project.embeddings(system.name), inputs, sections) as scratch:
        manifest = {"model_fingerprint": fingerprint(system.model), "input_fingerprint": fingerprint(*inputs)}
        inform_corpus(system, system.model, scratch, params, manifest)


if __name__ == "__main__":
    run(main)
