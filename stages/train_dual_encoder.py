"""train_dual_encoder: M_de, trained on denoised positives and hard negatives (section 3.4)."""

from gnn_encoder.core import project
from gnn_encoder.core.judgements import relevant_pairs
from gnn_encoder.core.params import load_params
from gnn_encoder.core.stage import output, run
from gnn_encoder.core.storage.tables import count_rows
from gnn_encoder.encoders.dual_encoder import DualEncoder
from gnn_encoder.training.examples import read_examples
from gnn_encoder.training.retriever import train_dual_encoder


def main() -> None:
    """Train from the base model, or on from the first retriever."""
    params = load_params()
    settings = params.train_dual_encoder
    inputs = [project.PASSAGES, project.queries("train"), project.qrels("train"), project.EXAMPLES, project.RETRIEVER]
    sections = {"encoder": params.encoder, "train_dual_encoder": settings, "seed": params.seed}
    with output(project.DUAL_ENCODER, inputs, sections) as scratch:
        pairs = relevant_pairs(project.queries("train"), project.qrels("train"), project.PASSAGES)
        examples = read_examples(project.EXAMPLES / "examples.parquet", pairs, count_rows(project.PASSAGES))
        if settings.init == "retriever":
            dropout, precision = params.encoder.dropout, params.encoder.precision
            encoder = DualEncoder.load(project.RETRIEVER, dropout=dropout, precision=precision)
        else:
            encoder = DualEncoder.from_pretrained(params.encoder)
        train_dual_encoder(encoder, examples, settings, params, scratch)


if __name__ == "__main__":
    run(main)
