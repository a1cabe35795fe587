"""train_dual_cross NAME: Dual-Cross-Encoder or its DPR baseline, fine-tuned from one pre-trained model (section 3.5).

Both systems train on the same batches in the same order, of labelled queries with hard negatives: BM25's, as in the
paper, or denoised ones, like M_de. They differ only in what E_P reads here and in search: a passage together with a
query, or the passage alone.
"""

from gnn_encoder.dual_cross.views import open_views
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.train.dual_encoder import open_texts, train_dual_encoder
from gnn_encoder.train.examples import open_examples


def main(stage: Stage) -> None:
    """Fine-tune on labelled queries."""
    params, section, queries = stage.params, stage.params.dual_cross, project.queries("train")
    how = {"dropout": params.encoder.dropout, "precision": params.encoder.precision}
    encoder = DualEncoder.load(project.PRETRAINED, **how)
    file = project.EXAMPLES if section.examples == "denoised" else project.BM25_EXAMPLES
    examples, part = open_examples(file, queries, scored=True), "dual_cross.finetune"
    texts = open_texts(encoder, queries, params.encoder)
    views = None
    if stage.item == "paired":
        encoder.read_pairs(section.max_length)
        views = open_views(encoder, section)
    train_dual_encoder(texts, examples, part, params, stage.scratch, title=project.title_of(stage.key), views=views)


if __name__ == "__main__":
    run(main, shared=True)
