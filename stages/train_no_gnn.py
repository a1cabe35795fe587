"""train_no_gnn: the control: M_de trained on by the loss of phase two of `train_mgt`, but without a graph.

Steps, batches and rate are those of `mgt.joint`, and the same encoders learn. The scores' factor stays 1 / temperature.
"""

from pathlib import Path

from gnn_encoder.base import distributed
from gnn_encoder.gnn.masking import Supervision
from gnn_encoder.gnn.tasks import ControlTask
from gnn_encoder.gnn.train import DevSamples, fit_phase, joint_evaluations, load_base
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.project import CONTROL, REFERENCE
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.search.faiss_index import index_system
from gnn_encoder.text.corpus import embed_judged, load_encoder, origin_of, same_origin, write_matrix
from gnn_encoder.train.dual_encoder import ContrastiveTask, open_texts
from gnn_encoder.train.examples import open_examples
from gnn_encoder.train.loop import HISTORY, Task, parameter_group, write_history


def main(stage: Stage) -> None:
    """Train the control, encode the passages by its best weights, index them and search."""
    params = stage.params
    places = (f(CONTROL) for f in (project.encoder, project.embeddings, project.index, project.runs))
    model, matrix, index, runs = map(stage.unfinished, places)
    train(params, model, stage.work / "no_gnn")
    distributed.barrier()
    encoder, origin = load_encoder(model, params.encoder), origin_of(model, project.PASSAGES)
    write_matrix(encoder, matrix, params, origin, encoded=same_origin(origin, project.embeddings(REFERENCE)))
    where = CONTROL, model, matrix, index, runs, params
    distributed.on_first(lambda: index_system(embed_judged(encoder, params.encoder), *where))


def train(params: Params, model: Path, work: Path) -> None:
    """Train by the loss of phase two, and write the weights of the best dev score and the curve."""
    mgt, queries, over_corpus = params.mgt, project.queries("train"), params.mgt.softmax == "corpus"
    encoder, cached = load_base(params)
    encoder.freeze_lower(params.encoder.frozen_layers)
    if over_corpus:
        encoder.fix_passages()
    texts, examples = open_texts(encoder, queries, params.encoder), open_examples(project.EXAMPLES, queries)
    dev = DevSamples(encoder, cached, params)
    sample = dev.of_joint()
    drawn = Supervision(examples, sample, mgt, mgt.joint, params.seed, masked=False)
    # The loss: L(q) of `corpus_loss`, or Eq. 2, `batch_loss`.
    if over_corpus:
        task: Task = ControlTask(texts, dev.tokens, drawn, cached)
    else:
        batches = (lambda number: drawn.batch(number)[0]), drawn.steps
        task = ContrastiveTask(texts, examples, *batches, dev=(sample, dev.tokens))
    groups, title = [parameter_group(encoder, mgt.joint.encoder_learning_rate)], project.title_of(CONTROL)
    history = fit_phase(task, groups, drawn, work, title, joint_evaluations(params))
    encoder.save(model)
    write_history(model / HISTORY, history)


if __name__ == "__main__":
    run(main, shared=True)
