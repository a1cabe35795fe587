"""train_no_gnn: the control: M_de trained further, but without a graph (the paper's "w/o GNN")."""

from pathlib import Path

import numpy as np
import torch

from gnn_encoder.base import distributed
from gnn_encoder.base.matrix import gather_rows
from gnn_encoder.gnn.masking import supervise
from gnn_encoder.gnn.train import DevQueries, fit_phase, load_base
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.project import CONTROL, MAIN
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.search.faiss_index import index_system
from gnn_encoder.text.corpus import embed_judged, load_encoder, origin_of, same_encoder, write_matrix
from gnn_encoder.train.dev import reciprocal_ranks
from gnn_encoder.train.dual_encoder import ContrastiveTask, open_texts
from gnn_encoder.train.examples import open_examples
from gnn_encoder.train.loop import HISTORY, parameter_group, write_history


def main(stage: Stage) -> None:
    """Train the control, encode the passages by its best weights, index them and search."""
    params, base = stage.params, project.base(MAIN)
    places = (f(CONTROL) for f in (project.encoder, project.embeddings, project.index, project.runs))
    model, matrix, index, runs = map(stage.unfinished, places)
    train(params, base, model, stage.work / "no_gnn")
    distributed.barrier()
    encoder, encoded = load_encoder(model, params.encoder), same_encoder(model, project.embeddings(base))
    write_matrix(encoder, matrix, params, origin_of(model, project.PASSAGES), encoded=encoded)
    if distributed.is_first():
        with distributed.alone():
            index_system(embed_judged(encoder, params.encoder), CONTROL, matrix, index, runs, params)
    distributed.barrier()


def train(params: Params, base: str, model: Path, work: Path) -> None:
    """Train by Eq. 2 on the batches of phase two, and write the weights of the best dev score and the curve."""
    section, queries = params.train_no_gnn, project.queries("train")
    encoder, cached = load_base(base, params)
    encoder.freeze_lower(params.encoder.frozen_layers)
    texts, examples = open_texts(encoder, queries, params.encoder), open_examples(project.EXAMPLES, queries)
    dev = DevQueries(encoder, cached, params)
    sample = dev.to_encode()
    drawn = supervise(examples, sample, params.mgt, section, params.seed, masked=False)
    batches = (lambda number: drawn.batch(number)[0]), len(drawn)
    asked, pool = dev.embed(sample.queries), gather_rows(cached, sample.pool).astype(np.float32)
    start = reciprocal_ranks(torch.from_numpy(asked), torch.from_numpy(pool), sample.relevant, own=sample.own).mean()
    task = ContrastiveTask(texts, examples, *batches, dev=(sample, dev.tokens))
    groups, title = [parameter_group(encoder, section.learning_rate)], project.title_of(CONTROL)
    history = fit_phase(task, groups, drawn, work, title, params.dev.evaluations, float(start))
    encoder.save(model)
    write_history(model / HISTORY, history)


if __name__ == "__main__":
    run(main, shared=True)
