"""positives: the relevant passages of the dev queries, and the sample of these queries that trainings are scored on.

Relevant are the judged passages or, in data that are judged by answers, the best passage of BM25 that holds an answer.
The quality of generated queries is measured with them. The candidates of a sampled query are the passages that BM25 and
the untouched base model rank first, and its relevant ones. M_ce reranks them query by query, and dual-encoders rank the
candidates of all queries for each of them.
"""

import logging

import polars as pl

from gnn_encoder.answers.pairs import answered, judged_by_answers
from gnn_encoder.answers.positives import best_answered
from gnn_encoder.core.judgements import relevant_pairs, with_rows
from gnn_encoder.core.records import DEV_CANDIDATES, QRELS, open_table
from gnn_encoder.core.runs import read_run
from gnn_encoder.core.storage.tables import count_rows, write_table
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.training.dev import candidates_of, sample_queries

log = logging.getLogger(__name__)


def main(stage: Stage) -> None:
    """Write the relevant passages as a qrels table, and the candidates of the sampled queries."""
    params, queries, answers = stage.params, project.queries("dev"), stage.params.evaluate.answers
    runs = {system: read_run(project.run_file(system, "dev")) for system in ("bm25", "untouched")}
    by_answers = judged_by_answers(queries)
    table = pl.DataFrame(open_table(project.qrels("dev"), QRELS).read())
    if by_answers:
        table = best_answered(runs["bm25"], queries, project.PASSAGES, answers)
        log.info("%d of %d dev queries have a passage with an answer", len(table), count_rows(queries))
    positives = stage.scratch / project.POSITIVES.name
    write_table(positives, QRELS, [table.to_arrow()])

    pairs = relevant_pairs(queries, positives, project.PASSAGES)
    sample = sample_queries(pairs, params.dev.queries, params.seed)
    depth = -(-params.dev.depth // len(runs))  # of each: together they bring in as many as M_de alone for MGT
    top = pl.concat([found.filter(pl.col("rank") <= depth) for found in runs.values()])
    retrieved = with_rows(top, queries, project.PASSAGES).filter(pl.col("query").is_in(sample.tolist()))
    if by_answers:
        hits = answered(retrieved.select("query", "passage").unique(), queries, project.PASSAGES, answers)
        pairs = pl.concat([pairs, hits]).unique()
    candidates = candidates_of(sample, pairs, retrieved)
    write_table(stage.scratch / project.DEV_CANDIDATES.name, DEV_CANDIDATES, [candidates.to_arrow()])
    pool = candidates["passage"].n_unique()
    log.info("the dev sample: %d queries, %d passages retrieved for them or relevant", len(sample), pool)


if __name__ == "__main__":
    run(main)
