"""rerank: M_de's top passages reordered by a cross-encoder, for a sample of the dev and test queries."""

import logging

import polars as pl

from gnn_encoder.base import distributed
from gnn_encoder.base.files import write_json
from gnn_encoder.base.judgements import relevant_pairs
from gnn_encoder.base.runs import read_run, write_run
from gnn_encoder.base.tables import read_column
from gnn_encoder.evaluation.reranking import milliseconds, rerank, retrieved, teacher_of
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.project import CEILING, REFERENCE
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.text.cross_encoder import CrossEncoder, score_pairs
from gnn_encoder.text.inputs import Inputs
from gnn_encoder.text.opening import open_passages, open_queries


def main(stage: Stage) -> None:
    """Rerank the runs of both splits, and measure the time per query."""
    params = stage.params
    model = CrossEncoder.load(project.CROSS_ENCODER, precision=params.encoder.precision).for_inference()
    scored = {split: score(stage, split, model) for split in project.JUDGED}
    pairs = relevant_pairs(project.queries("dev"), project.POSITIVES, project.PASSAGES)
    teacher = teacher_of(scored["dev"], pairs, params.teacher, CEILING)
    for split, rows in scored.items():
        qids, *ranking = rerank(rows, teacher)
        target = stage.scratch / project.run_file(CEILING, split).name
        write_run(target, qids, read_column(project.PASSAGES, "pid"), *ranking, CEILING)
    if distributed.is_first():
        with distributed.alone():
            top, queries = scored["dev"].drop_nulls("logit"), open_queries(project.queries("dev"), model)
            limits = {"max_length": params.train_cross_encoder.max_length, "batch_tokens": params.encoder.batch_tokens}
            spent = milliseconds(model, top, queries, open_passages(model), **limits)
        logging.getLogger(__name__).info("%s: %.0f ms a query, beside M_de's search", CEILING, spent)
        most = top.group_by("query").len()["len"].max()  # below rerank.depth where the run has no more
        write_json(stage.metrics / "latency.json", {"passages": most, "rerank_ms": spent})


def score(stage: Stage, split: str, model: CrossEncoder) -> pl.DataFrame:
    """The rows of `retrieved` with M_ce's logits, which are null below `rerank.depth`."""
    params, section, queries = stage.params, stage.params.rerank, project.queries(split)
    found = read_run(project.run_file(REFERENCE, split))
    rows = retrieved(found, queries, project.PASSAGES, sample=section.queries, seed=params.seed)
    top = rows.filter(pl.col("rank") <= section.depth).select("query", "passage")
    texts, length = (open_queries(queries, model), open_passages(model)), params.train_cross_encoder.max_length
    pairs = Inputs.of_table(top, *texts, model.template, length)
    logits = score_pairs(model, pairs, stage.work / split, params.encoder.batch_tokens)
    scored = top.with_columns(logit=pl.Series(logits))
    return rows.join(scored, on=["query", "passage"], how="left", maintain_order="left")


if __name__ == "__main__":
    run(main, shared=True)
