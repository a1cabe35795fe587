"""denoise: M_ce's scores sort candidates into denoised positives and hard negatives (section 3.4)."""

import logging

import polars as pl

from gnn_encoder.core import distributed, project
from gnn_encoder.core.judgements import relevant_pairs
from gnn_encoder.core.params import load_params
from gnn_encoder.core.records import EXAMPLES
from gnn_encoder.core.stage import WORK, output, run
from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.core.storage.tables import read_candidates, write_table
from gnn_encoder.teacher import score_candidates
from gnn_encoder.training.denoise import denoise, spread


def main() -> None:
    """Score the candidates and apply the thresholds."""
    params = load_params()
    settings = params.denoise
    inputs = [
        project.PASSAGES,
        project.queries("train"),
        project.qrels("train"),
        project.CANDIDATES,
        project.CROSS_ENCODER,
    ]
    sections = {"denoise": settings, "max_length": params.train_cross_encoder.max_length}
    with output(project.EXAMPLES, inputs, sections) as scratch:
        pairs = relevant_pairs(project.queries("train"), project.qrels("train"), project.PASSAGES)
        candidates = pl.DataFrame(read_candidates(project.CANDIDATES / "candidates.parquet"))
        chosen = spread(
            candidates, range_min=settings.range_min, range_max=settings.range_max, count=settings.candidates
        )
        # A labelled passage is a positive whatever its score, so only the others are scored.
        unlabelled = chosen.select("query", "passage").join(pairs, on=["query", "passage"], how="anti")
        unlabelled = unlabelled.sort("query", "passage")
        scored = score_candidates(
            unlabelled,
            project.queries("train"),
            scratch / WORK,
            model=project.CROSS_ENCODER,
            max_length=params.train_cross_encoder.max_length,
            encoder=params.encoder,
        )
        if distributed.is_first():
            table, counts = denoise(
                scored,
                pairs,
                positive_threshold=settings.positive_threshold,
                negative_threshold=settings.negative_threshold,
            )
            write_table(scratch / "examples.parquet", EXAMPLES, [table.to_arrow()])
            write_json(scratch / "statistics.json", counts)
            for name, value in counts.items():
                logging.info("%s: %d", name.replace("_", " "), value)


if __name__ == "__main__":
    run(main)
