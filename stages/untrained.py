"""untrained: what ranks without training, BM25 and the base model as it comes; and what the trainings start from.

BM25's candidates are the first retriever's negatives. Trainings are scored on sampled dev queries, whose candidates are
the passages that BM25 and the base model rank first, and their relevant ones: the judged passages or, in data that are
judged by answers, BM25's best one with an answer.
"""

from functools import partial

import polars as pl
import pyarrow as pa

from gnn_encoder.base import distributed
from gnn_encoder.base.judgements import Identical, relevant_pairs, with_rows
from gnn_encoder.base.runs import read_run, write_ranking
from gnn_encoder.base.tables import DEV_CANDIDATES, EXAMPLES, QRELS, read_column, read_table, write_table
from gnn_encoder.data.answers import best_answered, judged_by_answers, with_answered
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.project import LEXICAL, UNTOUCHED
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.search.bm25 import BM25Index
from gnn_encoder.search.faiss_index import build, write_runs
from gnn_encoder.text.corpus import load_encoder, origin_of, write_matrix
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.train.candidates import find_candidates
from gnn_encoder.train.dev import POOL_DEPTH, candidates_of, sample_queries
from gnn_encoder.train.examples import examples_from_candidates


def main(stage: Stage) -> None:
    """All processes encode the passages; the first one does the rest."""
    params = stage.params
    places = (project.encoder(UNTOUCHED), project.embeddings(UNTOUCHED), project.index(UNTOUCHED))
    model, matrix, index = map(stage.unfinished, places)
    DualEncoder.untouched(params.encoder).save(model)
    distributed.barrier()
    encoder = load_encoder(model, params.encoder)
    write_matrix(encoder, matrix, params, origin_of(model, project.PASSAGES))
    if distributed.is_first():
        with distributed.alone():
            factory, seed = params.index.factory, params.seed
            build(matrix, index, factory=factory, pids=project.PASSAGES, system=UNTOUCHED, seed=seed)
            write_runs(encoder, index, stage.unfinished(project.runs(UNTOUCHED)), params)
            rank_by_words(stage)
            write_dev(stage)
    distributed.barrier()


def rank_by_words(stage: Stage) -> None:
    """BM25's index and runs. Of its candidates, labelled passages become positives, the others negatives."""
    params, runs = stage.params, stage.unfinished(project.runs(LEXICAL))
    index = BM25Index.build(project.PASSAGES, params.bm25)
    index.save(stage.unfinished(project.index(LEXICAL)))
    asked = read_column(project.queries("train"), "text").to_pylist()
    identical, pairs = Identical.read(project.IDENTICAL, "train"), relevant_pairs(*project.tables("train"))
    search = partial(index.search, depth=params.bm25.depth)
    parts = find_candidates(search, asked, stage.work, identical, pairs, label="bm25: candidates")
    found = pl.DataFrame(pa.concat_tables(parts))
    write_table(runs / "examples.parquet", EXAMPLES, [examples_from_candidates(pairs, found).to_arrow()])
    for split in project.JUDGED:
        table, identical = project.queries(split), Identical.read(project.IDENTICAL, split)
        find = partial(index.search, read_column(table, "text").to_pylist())
        ranking = identical.search(find, params.retrieve.depth, index.passages)
        write_ranking(runs / project.run_file(LEXICAL, split).name, ranking, table, project.PASSAGES, LEXICAL)


def write_dev(stage: Stage) -> None:
    """Write the relevant passages of the dev queries, and candidates of sampled ones."""
    params, queries, folder = stage.params, project.queries("dev"), stage.unfinished(project.POSITIVES.parent)
    runs = {name: stage.unfinished(project.runs(name)) / "dev.trec.gz" for name in (LEXICAL, UNTOUCHED)}
    ranked = {name: read_run(run) for name, run in runs.items()}
    answers, table = params.evaluate.answers, read_table(project.qrels("dev"), QRELS)
    if judged_by_answers(queries):
        table = best_answered(ranked[LEXICAL], queries, project.PASSAGES, answers)
    write_table(folder / project.POSITIVES.name, QRELS, [table.to_arrow()])
    pairs = relevant_pairs(queries, folder / project.POSITIVES.name, project.PASSAGES)
    sample = sample_queries(pairs, params.dev.queries, params.seed)
    depth = -(-POOL_DEPTH // len(ranked))  # of each: together they bring in as many as M_de alone for MGT
    top = pl.concat([found.filter(pl.col("rank") <= depth) for found in ranked.values()])
    retrieved = with_rows(top, queries, project.PASSAGES).filter(pl.col("query").is_in(sample.tolist()))
    found = retrieved.select("query", "passage").unique()
    pool = candidates_of(sample, with_answered(pairs, found, queries, project.PASSAGES, answers), retrieved)
    write_table(folder / project.DEV_CANDIDATES.name, DEV_CANDIDATES, [pool.to_arrow()])


if __name__ == "__main__":
    run(main, shared=True)
