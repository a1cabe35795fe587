"""train_dual_cross NAME: Dual-Cross-Encoder or its DPR baseline, trained in two stages (section 3.5).

Both systems train on the same batches in the same order, first on generated queries, then on labelled ones and denoised
hard negatives, like M_de. They differ only in what E_P reads: a passage together with a query, or the passage alone.
"""

from pathlib import Path
from typing import Literal

from gnn_encoder.core.storage.scratch import WORK
from gnn_encoder.core.storage.tables import count_rows
from gnn_encoder.dual_cross.views import check_queries, generated_examples, pool_of, view_inputs
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.opening import open_passages, open_queries
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.pipeline.systems import title_of
from gnn_encoder.pipeline.training import logged_counts, open_dev
from gnn_encoder.training.contrastive import Generated, Texts
from gnn_encoder.training.dev_score import Views
from gnn_encoder.training.dual_encoder import ContrastiveTask, dev_score
from gnn_encoder.training.examples import Examples, read_examples, stream
from gnn_encoder.training.loop import fit_evenly, write_history


def main(stage: Stage) -> None:
    """Pre-train the base model on generated queries; fine-tune it on labelled ones."""
    params, title, paired = stage.params, title_of(stage.key), stage.item == "paired"
    start = stage.once("pretrained", lambda folder: pretrain(params, folder, paired=paired, title=title))
    encoder = DualEncoder.load(start, dropout=params.encoder.dropout, precision=params.encoder.precision)
    examples = read_examples(project.EXAMPLES, count_rows(project.PASSAGES))
    train(encoder, examples, project.queries("train"), "finetune", params, stage.scratch, title)


def pretrain(params: Params, folder: Path, *, paired: bool, title: str) -> None:
    """Train the base model on generated queries and write it into a folder."""
    section, encoder = params.dual_cross, new_encoder(params, paired=paired)
    examples = generated_examples(count_rows(project.PASSAGES), section.views, section.queries, params.seed)
    train(encoder, examples, project.GENERATED_QUERIES, "pretrain", params, folder, title)


def new_encoder(params: Params, *, paired: bool) -> DualEncoder:
    """The base model; `paired`: E_P reads a passage together with a query, or else alone, as in the DPR baseline."""
    section = params.dual_cross
    encoder = params.encoder.model_copy(update={"shared": section.shared})
    return DualEncoder.from_pretrained(encoder, pair_length=section.max_length if paired else None)


def train(
    encoder: DualEncoder,
    examples: Examples,
    queries: Path,
    part: Literal["pretrain", "finetune"],
    params: Params,
    folder: Path,
    title: str,
) -> None:
    """Train by one of the two stages, and write the model of the best dev score and its history."""
    section, name, size = params.dual_cross, f"dual_cross.{part}", params.encoder.batch_tokens
    settings = params.value(name)
    encoder.freeze_lower(params.encoder.frozen_layers)
    generated, passages = open_queries(project.GENERATED_QUERIES, encoder), open_passages(encoder)
    check_queries(generated, count_rows(project.PASSAGES), section.views)
    # Beside the query that is asked E_P reads a passage, which is the paper's mapping, or beside one generated for it.
    beside = Generated(generated, section.views) if section.beside == "generated" else None
    searched = None
    if encoder.settings.pair_length is not None:
        inputs = view_inputs(encoder, generated, passages, section.views, plain=section.plain_view)
        searched = Views(inputs=inputs, count=section.vectors, pool=pool_of(section))
    asked = open_queries(queries, encoder)
    texts = Texts(encoder, asked, passages, beside, plain_share=settings.plain_share, batch_tokens=size)
    score = dev_score(encoder, texts, open_dev(encoder, params.dev), size, searched)
    examples = examples.weighed(logged_counts(queries))
    task = ContrastiveTask(encoder, texts, examples, settings, seed=stream(params.seed, name), score=score)
    how = {"name": "contrastive", "title": title, "seed": params.seed, "evaluations": params.dev.evaluations}
    history = fit_evenly(task, encoder, folder / WORK, settings, **how)
    encoder.save(folder)
    write_history(folder / "history.csv", history)


if __name__ == "__main__":
    run(main, shared=True)
