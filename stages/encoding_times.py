"""encoding_times: ms per passage and ms per query, of M_de and of GNN-encoder (the paper's Table 4)."""

from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.evidence.times import SYSTEMS, encoding_milliseconds, machine, retrieval_milliseconds
from gnn_encoder.pipeline.stage import Stage, run


def main(stage: Stage) -> None:
    """Time both on this machine."""
    encoding = encoding_milliseconds(stage.params, stage.work)
    retrieval = retrieval_milliseconds(stage.params)
    rows = {system: {"ms_a_passage": encoding[system], "ms_a_question": retrieval[system]} for system in SYSTEMS}
    write_json(stage.scratch / "times.json", {"systems": rows, "machine": machine(stage.params)})


if __name__ == "__main__":
    run(main)
