"""train_dual_cross NAME: Dual-Cross-Encoder or its DPR baseline, trained in two stages (section 3.5).

Both systems train on the same batches in the same order, first on generated queries, then on labelled ones with hard
negatives: BM25's, as in the paper, or denoised ones, like M_de. They differ only in what E_P reads: a passage together
with a query, or the passage alone.
"""

from pathlib import Path

from gnn_encoder.base.judgements import Identical
from gnn_encoder.base.tables import count_rows
from gnn_encoder.dual_cross.views import check_queries, generated_examples, open_views
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.project import title_of
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.text.corpus import open_passages, open_queries
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.train.dual_encoder import Texts, train_dual_encoder
from gnn_encoder.train.examples import Examples, open_examples

PRETRAIN = "dual_cross.pretrain"
PLAIN_SHARE = 0.75  # of the passages of fine-tuning that are read alone, where the passage alone is a view too


def main(stage: Stage) -> None:
    """Pre-train the base model on generated queries; fine-tune it on labelled ones."""
    params, title, paired = stage.params, title_of(stage.key), stage.item == "paired"
    start = stage.once("pretrained", lambda folder: pretrain(params, folder, paired=paired, title=title))
    encoder = DualEncoder.load(start, dropout=params.encoder.dropout, precision=params.encoder.precision)
    file = project.EXAMPLES if params.dual_cross.examples == "denoised" else project.BM25_EXAMPLES
    examples, queries = open_examples(file, project.queries("train"), scored=True), project.queries("train")
    train(encoder, examples, queries, "dual_cross.finetune", params, stage.scratch, title)


def pretrain(params: Params, folder: Path, *, paired: bool, title: str) -> None:
    """Train the base model; `paired`: E_P reads a passage together with a query, or else alone, as in the baseline."""
    section = params.dual_cross
    encoder = DualEncoder.from_pretrained(params.encoder, pair_length=section.max_length if paired else None)
    drawn, identical = (section.views, section.queries, params.seed), Identical.read(project.IDENTICAL, None)
    examples = generated_examples(count_rows(project.PASSAGES), *drawn, identical)
    train(encoder, examples, project.GENERATED_QUERIES, PRETRAIN, params, folder, title)


def train(
    encoder: DualEncoder, examples: Examples, queries: Path, part: str, params: Params, folder: Path, title: str
) -> None:
    """Train by one of the two stages, and write the model of the best dev score and its history."""
    section = params.dual_cross
    generated, passages = open_queries(project.GENERATED_QUERIES, encoder), open_passages(encoder)
    check_queries(generated, len(passages), section.views)
    beside, plain_share = (generated, PLAIN_SHARE) if section.pool == "mean" else (None, 0.0)
    views = open_views(encoder, generated, passages, section) if encoder.settings.pair_length is not None else None
    tokens, chunk = params.encoder.batch_tokens, params.encoder.chunk_size
    sides, share = (open_queries(queries, encoder), passages, beside), 1.0 if part == PRETRAIN else plain_share
    texts = Texts(encoder, *sides, plain_share=share, batch_tokens=tokens, chunk_size=chunk)
    train_dual_encoder(encoder, texts, examples, part, params, folder, title=title, views=views)


if __name__ == "__main__":
    run(main, shared=True)
