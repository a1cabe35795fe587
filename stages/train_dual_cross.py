"""train_dual_cross NAME: Dual-Cross-Encoder or its DPR baseline, trained in two stages (section 3.5).

Both systems train on the same batches in the same order, first on generated queries and passages alone, then on
labelled queries with hard negatives: BM25's, as in the paper, or denoised ones, like M_de. They differ only in what E_P
reads in the second stage and in search: a passage together with a query, or the passage alone.
"""

from pathlib import Path

from gnn_encoder.base.judgements import Identical
from gnn_encoder.base.tables import count_rows
from gnn_encoder.dual_cross.views import generated_examples, open_generated, open_views
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.text.encoder import DualEncoder, allow_length
from gnn_encoder.train.dual_encoder import open_texts, train_dual_encoder
from gnn_encoder.train.examples import open_examples


def main(stage: Stage) -> None:
    """Pre-train the base model on generated queries; fine-tune it on labelled ones."""
    params, section, queries = stage.params, stage.params.dual_cross, project.queries("train")
    title = project.title_of(stage.key)
    start = stage.once("pretrained", lambda folder: pretrain(params, folder, title))
    encoder = DualEncoder.load(start, dropout=params.encoder.dropout, precision=params.encoder.precision)
    file = project.EXAMPLES if section.examples == "denoised" else project.BM25_EXAMPLES
    examples, part = open_examples(file, queries, scored=True), "dual_cross.finetune"
    texts = open_texts(encoder, queries, params.encoder)
    views = None
    if stage.item == "paired":
        encoder.read_pairs(section.max_length)
        views = open_views(encoder, section)
    train_dual_encoder(texts, examples, part, params, stage.scratch, title=title, views=views)


def pretrain(params: Params, folder: Path, title: str) -> None:
    """Train the base model on generated queries and passages alone; the dev score, too, is of passages alone."""
    section, n_passages = params.dual_cross, count_rows(project.PASSAGES)
    encoder = DualEncoder.from_pretrained(params.encoder)
    allow_length(encoder.passage, encoder.tokenizer, "dual_cross.max_length", section.max_length)
    open_generated(encoder, n_passages, section.views)  # checks
    identical = Identical.read(project.IDENTICAL, None)
    examples = generated_examples(n_passages, section.views, section.queries, params.seed, identical)
    texts = open_texts(encoder, project.GENERATED_QUERIES, params.encoder)
    train_dual_encoder(texts, examples, "dual_cross.pretrain", params, folder, title=title)


if __name__ == "__main__":
    run(main, shared=True)
