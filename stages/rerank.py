"""rerank: M_de's top passages reordered by a cross-encoder, for a sample of the dev and test queries."""

from gnn_encoder.core import distributed
from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.evaluation.reranking import score_split, teacher_of, time_a_query, write_reranked
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.pipeline.systems import CEILING


def main(stage: Stage) -> None:
    """Rerank the runs of both splits, and measure the time per query."""
    params = stage.params
    model = project.CROSS_ENCODER
    scored = {split: score_split(split, model, params, stage.work / split) for split in project.JUDGED}
    teacher = teacher_of(scored["dev"], params)
    for split, rows in scored.items():
        write_reranked(rows, teacher, stage.scratch / project.run_file(CEILING, split).name)
    if distributed.is_first():
        with distributed.alone():
            top = scored["dev"].drop_nulls("logit")
            spent = time_a_query(top, model, params)
        most = top.group_by("query").len()["len"].max()  # below rerank.depth where the run has no more
        write_json(stage.metrics / "latency.json", {"passages": most, "rerank_ms": spent})


if __name__ == "__main__":
    run(main, shared=True)
