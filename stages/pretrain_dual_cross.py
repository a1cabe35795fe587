"""pretrain_dual_cross: the base model trained on generated queries, from which both systems go on (section 3.5).

Passages are read alone, and so they are by the dev score. Negatives are in-batch ones.
"""

from gnn_encoder.base.judgements import Identical
from gnn_encoder.base.tables import count_rows
from gnn_encoder.dual_cross.views import generated_examples, open_generated
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.text.encoder import DualEncoder, allow_length
from gnn_encoder.train.dual_encoder import open_texts, train_dual_encoder


def main(stage: Stage) -> None:
    """Train, and keep the weights of the best dev score."""
    params, section, n_passages = stage.params, stage.params.dual_cross, count_rows(project.PASSAGES)
    encoder = DualEncoder.from_pretrained(params.encoder)
    allow_length(encoder.passage, encoder.tokenizer, "dual_cross.max_length", section.max_length)
    open_generated(encoder, n_passages, section.views)  # checks
    identical = Identical.read(project.IDENTICAL, None)
    examples = generated_examples(n_passages, section.views, section.queries, params.seed, identical)
    texts = open_texts(encoder, project.GENERATED_QUERIES, params.encoder)
    train_dual_encoder(texts, examples, "dual_cross.pretrain", params, stage.scratch, title="pre-training on queries")


if __name__ == "__main__":
    run(main, shared=True)
