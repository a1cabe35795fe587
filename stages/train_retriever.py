"""train_retriever: the first dual-encoder (DPR): in-batch negatives and BM25's (section 3.4)."""

import polars as pl

from gnn_encoder.core import project
from gnn_encoder.core.judgements import relevant_pairs
from gnn_encoder.core.params import load_params
from gnn_encoder.core.stage import output, run
from gnn_encoder.core.storage.tables import count_rows, read_candidates
from gnn_encoder.encoders.dual_encoder import DualEncoder
from gnn_encoder.training.examples import examples_from_candidates, to_examples
from gnn_encoder.training.retriever import train_dual_encoder


def main() -> None:
    """Train on labelled positives against BM25's candidates."""
    params = load_params()
    candidates = project.BM25 / "candidates.parquet"
    inputs = [project.PASSAGES, project.queries("train"), project.qrels("train"), candidates]
    sections = {"encoder": params.encoder, "train_retriever": params.train_retriever, "seed": params.seed}
    with output(project.RETRIEVER, inputs, sections) as scratch:
        pairs = relevant_pairs(project.queries("train"), project.qrels("train"), project.PASSAGES)
        table = examples_from_candidates(pairs, pl.DataFrame(read_candidates(candidates)))
        examples = to_examples(table, pairs, count_rows(project.PASSAGES))
        encoder = DualEncoder.from_pretrained(params.encoder)
        train_dual_encoder(encoder, examples, params.train_retriever, params, scratch)


if __name__ == "__main__":
    run(main)
