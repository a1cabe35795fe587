"""rerank: M_de's top passages reordered by a cross-encoder, for a sample of the dev and test queries."""

from gnn_encoder.core import distributed, project
from gnn_encoder.core.stage import Stage, run
from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.core.systems import CEILING
from gnn_encoder.evaluation.reranking import rerank_split, time_a_query


def main(stage: Stage) -> None:
    """Rerank the runs of both splits, and measure the time per query."""
    params = stage.params
    model = project.DATA / params.rerank.model
    scored = {}
    for split in project.JUDGED:
        target = stage.scratch / project.run_file(CEILING, split).name
        scored[split] = rerank_split(split, model, params, stage.work / split, target)
    if distributed.is_first():
        with distributed.alone():
            spent = time_a_query(scored["dev"], model, params)
        write_json(stage.metrics / "latency.json", {"passages": params.rerank.depth, "rerank_ms": spent})


if __name__ == "__main__":
    run(main, shared=True)
