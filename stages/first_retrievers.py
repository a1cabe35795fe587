"""first_retrievers: BM25, the base model as it comes, and the first retriever (the papers' DPR) with its candidates.

BM25's candidates are the first retriever's negatives, and the first retriever's are M_ce's.
"""

import shutil
from functools import partial
from pathlib import Path

import polars as pl
import pyarrow as pa

from gnn_encoder.base import distributed
from gnn_encoder.base.files import WORK
from gnn_encoder.base.judgements import Identical, relevant_pairs
from gnn_encoder.base.runs import write_ranking
from gnn_encoder.base.tables import CANDIDATES, EXAMPLES, read_column, write_table
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.project import LEXICAL, RETRIEVER, UNTOUCHED
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.search.bm25 import BM25Index
from gnn_encoder.search.exact import exact_top_k
from gnn_encoder.search.faiss_index import index_system, new_index
from gnn_encoder.text.corpus import embed_judged, embed_queries, load_encoder, origin_of, same_encoder, write_matrix
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.train.candidates import find_candidates
from gnn_encoder.train.dev import write_dev
from gnn_encoder.train.dual_encoder import open_texts, train_dual_encoder
from gnn_encoder.train.examples import examples_from_candidates, open_examples
from gnn_encoder.train.loop import HISTORY


def main(stage: Stage) -> None:
    """Untrained first: all processes encode the passages, and the first one does the rest."""
    params = stage.params
    places = (project.encoder(UNTOUCHED), project.embeddings(UNTOUCHED), project.index(UNTOUCHED))
    model, matrix, index = map(stage.unfinished, places)
    encoder = DualEncoder.untouched(params.encoder)
    new_index(params.index.factory, encoder.dimension)  # a mistake in these two is told before hours are spent
    encoder.freeze_lower(params.encoder.frozen_layers)
    encoder.save(model)
    distributed.barrier()
    encoder = load_encoder(model, params.encoder)
    write_matrix(encoder, matrix, params, origin_of(model, project.PASSAGES))
    if distributed.is_first():
        with distributed.alone():
            folders = {name: stage.unfinished(project.runs(name)) for name in (LEXICAL, UNTOUCHED)}
            queries = embed_judged(encoder, params.encoder)
            index_system(queries, UNTOUCHED, matrix, index, folders[UNTOUCHED], params)
            rank_by_words(stage, folders[LEXICAL])
            write_dev(stage.unfinished(project.POSITIVES.parent), folders, params)
    distributed.barrier()
    retrieve(stage)


def rank_by_words(stage: Stage, runs: Path) -> None:
    """Write BM25's index and runs. Of its candidates, labelled passages become positives, the others negatives."""
    params, folder = stage.params, stage.unfinished(project.index(LEXICAL))
    index = BM25Index.build(project.PASSAGES, params.bm25)
    index.save(folder)
    asked = read_column(project.queries("train"), "text").to_pylist()
    identical, pairs = Identical.read(project.IDENTICAL, "train"), relevant_pairs(*project.tables("train"))
    search = partial(index.search, depth=params.bm25.depth)
    found = pl.DataFrame(pa.concat_tables(find_candidates(search, asked, stage.work, identical, pairs, label="bm25")))
    write_table(runs / project.BM25_EXAMPLES.name, EXAMPLES, [examples_from_candidates(pairs, found).to_arrow()])
    for split in project.JUDGED:
        table, identical = project.queries(split), Identical.read(project.IDENTICAL, split)
        find = partial(index.search, read_column(table, "text").to_pylist())
        ranking = identical.search(find, params.retrieve.depth, index.passages)
        write_ranking(runs / project.run_file(LEXICAL, split).name, ranking, table, project.PASSAGES, LEXICAL)


def retrieve(stage: Stage) -> None:
    """Train the first retriever against BM25's negatives, if at all, and search by it for all training queries."""
    params, queries = stage.params, project.queries("train")
    places = RETRIEVER, project.embeddings("retriever"), project.CANDIDATES.parent
    model, matrix, folder = map(stage.unfinished, places)
    if not (model / HISTORY).exists():  # else an interrupted call has trained it
        train_retriever(stage, model, queries)
    encoded = same_encoder(model, stage.unfinished(project.embeddings(UNTOUCHED)))
    encoder, origin = load_encoder(model, params.encoder), origin_of(model, project.PASSAGES)
    write_matrix(encoder, matrix, params, origin, encoded=encoded)
    identical, pairs = Identical.read(project.IDENTICAL, "train"), relevant_pairs(*project.tables("train"))
    find = partial(exact_top_k, matrix, k=params.mine_candidates.depth, name="mine_candidates.depth")
    asked = embed_queries(encoder, queries, params.encoder.batch_tokens)
    found = find_candidates(find, asked, stage.work / "mined", identical, pairs, label="mine candidates")
    write_table(folder / project.CANDIDATES.name, CANDIDATES, found)


def train_retriever(stage: Stage, model: Path, queries: Path) -> None:
    """Write the base model, trained against BM25's negatives or, without steps, as it comes."""
    params = stage.params
    if params.train_retriever.steps:
        encoder = DualEncoder.from_pretrained(params.encoder)
    else:  # its matrix is there already
        encoder = DualEncoder.load(stage.unfinished(project.encoder(UNTOUCHED)), precision=params.encoder.precision)
    examples = open_examples(stage.unfinished(project.runs(LEXICAL)) / project.BM25_EXAMPLES.name, queries)
    texts, dev = open_texts(encoder, queries, params.encoder), stage.unfinished(project.POSITIVES.parent)
    how = {"title": "first retriever", "dev": dev / project.DEV_CANDIDATES.name}
    train_dual_encoder(texts, examples, "train_retriever", params, model, **how)
    if distributed.is_first():
        shutil.rmtree(model / WORK, ignore_errors=True)
    distributed.barrier()


if __name__ == "__main__":
    run(main, shared=True)
