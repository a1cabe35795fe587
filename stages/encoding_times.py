"""encoding_times: ms a passage and ms a question, of M_de and of GNN-encoder (the paper's Table 4)."""

from gnn_encoder.core import distributed, project
from gnn_encoder.core.params import load_params
from gnn_encoder.core.stage import WORK, output, run
from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.evidence.times import SYSTEMS, encoding_milliseconds, machine, retrieval_milliseconds


def main() -> None:
    """Time both on this machine."""
    params = load_params()
    system = project.gnn_system("gnn_encoder", params)
    inputs = [
        *(project.PASSAGES, project.queries("train"), project.qrels("train"), project.queries("dev"), system.model),
        *(project.ENCODERS[system.base], project.embeddings(system.base)),
        *(system.nodes, system.graph, system.edge_features, *map(project.index, SYSTEMS)),
    ]
    sections = {
        "encode_corpus": params.encode_corpus,
        "max_neighbours": params.mgt.max_neighbours,
        "cache_passages": params.cache_passages,
        "encoder": params.encoder,
    }
    with output(project.ENCODING_TIMES, inputs, sections) as scratch:
        if distributed.is_first():
            encoding = encoding_milliseconds(params, scratch / WORK)
            retrieval = retrieval_milliseconds(params)
            rows = {s: {"ms_a_passage": encoding[s], "ms_a_question": retrieval[s]} for s in SYSTEMS}
            write_json(scratch / "times.json", {"systems": rows, "machine": machine(params)})


if __name__ == "__main__":
    run(main)
