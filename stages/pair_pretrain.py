"""pair_pretrain SYSTEM: both losses on pseudo-labels (PAIR Eq. 6, section 3.4); pair_no_psr: query-centric."""

import sys

import polars as pl

from gnn_encoder.core import project
from gnn_encoder.core.params import load_params
from gnn_encoder.core.stage import output, run
from gnn_encoder.core.storage.tables import count_rows
from gnn_encoder.encoders.dual_encoder import DualEncoder
from gnn_encoder.training.examples import read_examples
from gnn_encoder.training.retriever import train_dual_encoder

NO_PAIRS = pl.DataFrame(schema={"query": pl.Int32, "passage": pl.Int32})  # hidden labels are not known ones


def main() -> None:
    """Train from the base model."""
    params = load_params()
    system, pair = project.chosen(sys.argv[1:], project.PAIR_SYSTEMS), params.pair
    questions = project.PAIR_LABELS / "questions.parquet" if pair.pseudo_labels else project.queries("train")
    alpha = pair.pretrain.alpha if system == "pair" else 0.0
    settings = pair.pretrain.model_copy(update={"alpha": alpha})
    encoder = params.encoder.model_copy(update={"shared": pair.shared})
    sections = {"encoder": encoder, "pretrain": settings, "seed": params.seed}
    inputs = [project.PASSAGES, questions, project.PAIR_LABELS]
    with output(project.pretrained(system), inputs, sections) as scratch:
        labels = project.PAIR_LABELS / "pretrain.parquet"
        examples = read_examples(labels, NO_PAIRS, count_rows(project.PASSAGES))
        model = DualEncoder.from_pretrained(encoder)
        train_dual_encoder(model, examples, settings, params, scratch, questions=questions, alpha=alpha)


if __name__ == "__main__":
    run(main)
