"""train_dual_cross NAME: Dual-Cross-Encoder or its DPR baseline, trained in two stages (section 3.5).

Both systems train on the same batches in the same order, first on generated queries, then on labelled ones with hard
negatives: BM25's, as in the paper, or denoised ones, like M_de. They differ only in what E_P reads: a passage together
with a query, or the passage alone.
"""

from dataclasses import replace
from pathlib import Path

from gnn_encoder.base.judgements import Identical
from gnn_encoder.base.tables import count_rows
from gnn_encoder.dual_cross.views import generated_examples, open_generated, open_views
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.text.batches import Inputs
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.train.dual_encoder import Texts, open_texts, train_dual_encoder
from gnn_encoder.train.examples import open_examples


def main(stage: Stage) -> None:
    """Pre-train the base model on generated queries; fine-tune it on labelled ones."""
    params, section, queries = stage.params, stage.params.dual_cross, project.queries("train")
    title, paired = project.title_of(stage.key), stage.item == "paired"
    start = stage.once("pretrained", lambda folder: pretrain(params, folder, paired=paired, title=title))
    encoder = DualEncoder.load(start, dropout=params.encoder.dropout, precision=params.encoder.precision)
    file = project.EXAMPLES if section.examples == "denoised" else project.BM25_EXAMPLES
    examples, part = open_examples(file, queries, scored=True), "dual_cross.finetune"
    texts, views = read_texts(encoder, queries, params)
    train_dual_encoder(texts, examples, part, params, stage.scratch, title=title, views=views)


def pretrain(params: Params, folder: Path, *, paired: bool, title: str) -> None:
    """Train the base model on passages alone; `paired`: afterwards E_P reads each together with a query."""
    section, identical = params.dual_cross, Identical.read(project.IDENTICAL, None)
    encoder = DualEncoder.from_pretrained(params.encoder, pair_length=section.max_length if paired else None)
    examples = generated_examples(count_rows(project.PASSAGES), section.views, section.queries, params.seed, identical)
    texts, views = read_texts(encoder, project.GENERATED_QUERIES, params)
    train_dual_encoder(
        replace(texts, alone=True), examples, "dual_cross.pretrain", params, folder, title=title, views=views
    )


def read_texts(encoder: DualEncoder, queries: Path, params: Params) -> tuple[Texts, Inputs | None]:
    """What is read in training (Eq. 7, 8), and by E_P in search."""
    texts = open_texts(encoder, queries, params.encoder)
    open_generated(encoder, len(texts.passage_tokens), params.dual_cross.views)  # checks, also for the baseline
    views = open_views(encoder, params.dual_cross) if encoder.settings.pair_length is not None else None
    return texts, views


if __name__ == "__main__":
    run(main, shared=True)
