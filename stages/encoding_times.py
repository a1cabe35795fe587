"""encoding_times: ms per passage and ms per query, of M_de and of GNN-encoder (the paper's Table 4)."""

import os

import torch

from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.core.storage.tables import count_rows
from gnn_encoder.evaluation.costs import QUERIES, measure_costs
from gnn_encoder.evidence.encoding_times import GRAPH, encoding_milliseconds
from gnn_encoder.models.device import processor, working_dtype
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.stage import Stage, run


def main(stage: Stage) -> None:
    """Time both on this machine, and record what the times depend on."""
    params = stage.params
    rows = {
        system: {"ms_a_passage": passage, "ms_a_question": measure_costs(system, params).latency_ms}
        for system, passage in encoding_milliseconds(params, stage.work).items()
    }
    machine = {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "threads": torch.get_num_threads(),
        "precision": "bf16" if working_dtype(params.encoder.precision) is torch.bfloat16 else "fp32",
        "passage_batch_tokens": params.encoder.batch_tokens,
        "passage_length": params.encoder.passage_length,
        "query_batch": 1,
        "passages": count_rows(project.PASSAGES),
        "queries_in_graph": count_rows(GRAPH.queries),
        "queries_timed": QUERIES,
    }
    write_json(stage.scratch / "times.json", {"systems": rows, "machine": machine})


if __name__ == "__main__":
    run(main)
