"""rerank: M_de's top passages reordered by a cross-encoder, for a sample of the dev and test questions."""

import logging
from pathlib import Path

import polars as pl

from gnn_encoder.core import distributed, project
from gnn_encoder.core.judgements import with_rows
from gnn_encoder.core.params import Params, TrainCrossEncoder, load_params
from gnn_encoder.core.stage import WORK, output, run
from gnn_encoder.core.storage.atomic import publish_files, write_json
from gnn_encoder.core.storage.tables import read_column
from gnn_encoder.encoders.cross_encoder import CrossEncoder
from gnn_encoder.encoders.texts import open_passages, open_queries
from gnn_encoder.evaluation.runs import read_run, write_run
from gnn_encoder.reranking import as_matrices, milliseconds, reorder, sample_qids
from gnn_encoder.teacher import score_candidates

log = logging.getLogger(__name__)
SYSTEM = "reranked"
BASE = "dual_encoder"  # M_de


def main() -> None:
    """Score the top of M_de's runs, write them anew, and tell how long a question takes."""
    params = load_params()
    section = params.rerank
    files = {split: project.run_file(SYSTEM, split) for split in project.JUDGED}
    model = project.DATA / section.model
    runs = [project.run_file(BASE, split) for split in files]
    inputs = [project.PASSAGES, *map(project.queries, files), *runs, model]
    sections = {
        "rerank": section,
        "max_length": settings(params).max_length,
        "precision": params.encoder.precision,
        "seed": params.seed,
    }
    with output(files["dev"].parent, inputs, sections) as scratch:
        tops = {
            split: write_split(split, model, params, scratch / WORK / split, scratch / files[split].name)
            for split in files
        }
        if distributed.is_first():
            spent = time_a_question(tops["dev"], model, params)
            log.info("%s: %.0f ms a question, beside M_de's search", SYSTEM, spent)
            write_json(scratch / WORK / "metrics" / "latency.json", {"passages": section.depth, "rerank_ms": spent})
            publish_files(scratch / WORK / "metrics", project.METRICS / SYSTEM)


def write_split(split: str, model: Path, params: Params, work: Path, path: Path) -> pl.DataFrame:
    """Reorder one run; what a kill leaves scored in `work` is not scored again. Returns the scored pairs."""
    section, questions = params.rerank, project.queries(split)
    qids = sample_qids(pl.Series(read_column(questions, "qid")), section.questions, params.seed)
    found = read_run(project.run_file(BASE, split)).filter(pl.col("qid").is_in(qids.implode()))
    rows = with_rows(found, questions, project.PASSAGES).sort("query", "rank").select("qid", "query", "passage", "rank")
    scored = score_candidates(
        rows.filter(pl.col("rank") <= section.depth).select("query", "passage"),
        questions,
        work,
        model=model,
        max_length=settings(params).max_length,
        encoder=params.encoder,
    )
    if distributed.is_first():
        asked = rows.select("qid", "query").unique(maintain_order=True)
        passages, scores = as_matrices(reorder(rows.drop("qid"), scored), asked["query"].to_numpy())
        write_run(path, asked["qid"].to_list(), read_column(project.PASSAGES, "pid"), passages, scores, SYSTEM)
    return scored


def time_a_question(top: pl.DataFrame, folder: Path, params: Params) -> float:
    """Milliseconds, on the dev questions."""
    model = CrossEncoder.load(folder, precision=params.encoder.precision).for_inference()
    return milliseconds(
        model,
        top,
        open_queries(project.queries("dev"), model),
        open_passages(model),
        max_length=settings(params).max_length,
        batch_tokens=params.encoder.batch_tokens,
    )


def settings(params: Params) -> TrainCrossEncoder:
    """Those that the cross-encoder was trained with."""
    teacher = params.pair.teacher if params.rerank.model == "pair_teacher" else None
    return teacher or params.train_cross_encoder


if __name__ == "__main__":
    run(main)
