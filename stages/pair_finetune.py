"""pair_finetune SYSTEM: query-centric loss on labels and pseudo-labels of labelled questions (PAIR, section 3.4)."""

import sys

from gnn_encoder.core import project
from gnn_encoder.core.judgements import relevant_pairs
from gnn_encoder.core.params import load_params
from gnn_encoder.core.stage import output, run
from gnn_encoder.core.storage.tables import count_rows
from gnn_encoder.encoders.dual_encoder import DualEncoder
from gnn_encoder.training.examples import read_examples
from gnn_encoder.training.retriever import train_dual_encoder


def main() -> None:
    """Train on from the pre-trained encoder."""
    params = load_params()
    system, settings = project.chosen(sys.argv[1:], project.PAIR_SYSTEMS), params.pair.finetune
    start, alpha = project.pretrained(system), settings.alpha if system == "pair" else 0.0
    inputs = [project.PASSAGES, project.queries("train"), project.qrels("train"), project.PAIR_LABELS, start]
    sections = {"encoder": params.encoder, "finetune": settings, "alpha": alpha, "seed": params.seed}
    with output(project.ENCODERS[system], inputs, sections) as scratch:
        pairs = relevant_pairs(project.queries("train"), project.qrels("train"), project.PASSAGES)
        examples = read_examples(project.PAIR_LABELS / "finetune.parquet", pairs, count_rows(project.PASSAGES))
        model = DualEncoder.load(start, precision=params.encoder.precision, dropout=params.encoder.dropout)
        train_dual_encoder(model, examples, settings, params, scratch, alpha=alpha)


if __name__ == "__main__":
    run(main)
