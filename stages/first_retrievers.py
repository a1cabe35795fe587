"""first_retrievers: BM25, the base model as it comes, and the first retriever (the papers' DPR) with its candidates.

BM25's candidates are the first retriever's negatives, and the first retriever's are M_ce's.
"""

import shutil

from gnn_encoder.base import distributed
from gnn_encoder.base.files import WORK
from gnn_encoder.base.tables import CANDIDATES, write_table
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.search.faiss_index import index_system, new_index
from gnn_encoder.text.corpus import embed_judged, load_encoder, origin_of, same_origin, write_matrix
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.text.pretrained import own_folder
from gnn_encoder.train.candidates import mine_candidates, rank_by_words
from gnn_encoder.train.dev import write_dev
from gnn_encoder.train.dual_encoder import open_texts, train_dual_encoder
from gnn_encoder.train.examples import open_examples


def main(stage: Stage) -> None:
    """Untrained first: all processes encode the passages, and the first one does the rest."""
    params, queries, positives = stage.params, project.queries("train"), stage.unfinished(project.POSITIVES.parent)
    places = (place(project.UNTOUCHED) for place in (project.encoder, project.embeddings, project.index, project.runs))
    untouched, matrix, index, runs = map(stage.unfinished, places)
    encoder = DualEncoder.untouched(params.encoder)
    new_index(params.index.factory, encoder.dimension)  # a mistake in these two is told before hours are spent
    encoder.freeze_lower(params.encoder.frozen_layers)
    encoder.save(untouched)
    distributed.barrier()
    encoder = load_encoder(untouched, params.encoder)
    write_matrix(encoder, matrix, params, origin_of(untouched, project.PASSAGES))
    words = stage.unfinished(project.runs(project.LEXICAL))

    def rank() -> None:
        judged = embed_judged(encoder, params.encoder)
        index_system(judged, project.UNTOUCHED, untouched, matrix, index, runs, params)
        rank_by_words(stage.unfinished(project.index(project.LEXICAL)), words, stage.work, params)
        write_dev(positives, {project.LEXICAL: words, project.UNTOUCHED: runs}, params)

    distributed.on_first(rank)
    # The first retriever is the base model, trained against BM25's negatives or, without steps, as it comes.
    model, of_model = stage.unfinished(project.RETRIEVER), stage.unfinished(project.embeddings("retriever"))
    if params.train_retriever.steps:
        encoder = DualEncoder.from_pretrained(params.encoder)
    else:  # its matrix is there already
        encoder = DualEncoder.load(untouched, precision=params.encoder.precision)
    examples, trained = open_examples(words / project.BM25_EXAMPLES.name, queries), stage.work / "retriever"
    texts, dev = open_texts(encoder, queries, params.encoder), positives / project.DEV_CANDIDATES.name
    train_dual_encoder(texts, examples, "train_retriever", params, trained, title="first retriever", dev=dev)
    if distributed.is_first():
        shutil.copytree(trained, model, ignore=shutil.ignore_patterns(WORK), dirs_exist_ok=True)
    distributed.barrier()
    encoder, origin = load_encoder(model, params.encoder), origin_of(model, project.PASSAGES)
    write_matrix(encoder, of_model, params, origin, encoded=same_origin(origin, matrix))
    found = mine_candidates(encoder, of_model, "train", stage.work / "mined", params, "mine_candidates.depth")
    write_table(stage.unfinished(project.CANDIDATES.parent) / project.CANDIDATES.name, CANDIDATES, found)


if __name__ == "__main__":
    run(main, shared=True, own_files=lambda params: own_folder(params.encoder))
