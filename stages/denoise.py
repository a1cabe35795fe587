"""denoise: denoised positives and hard negatives, chosen from the candidates by M_ce's scores (section 3.4)."""

import logging

import polars as pl

from gnn_encoder.core import project
from gnn_encoder.core.judgements import relevant_pairs
from gnn_encoder.core.records import EXAMPLES
from gnn_encoder.core.stage import Stage, run
from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.core.storage.tables import read_candidates, write_table
from gnn_encoder.encoding.scoring import score_candidates
from gnn_encoder.training.denoise import denoise, spread

log = logging.getLogger(__name__)


def main(stage: Stage) -> None:
    """Score the candidates and apply the thresholds."""
    params, settings, queries = stage.params, stage.params.denoise, project.queries("train")
    pairs = relevant_pairs(queries, project.qrels("train"), project.PASSAGES)
    candidates = pl.DataFrame(read_candidates(project.CANDIDATES))
    chosen = spread(candidates, range_min=settings.range_min, range_max=settings.range_max, count=settings.candidates)
    # A labelled passage is a positive whatever its score, so that only the other candidates are scored.
    unlabelled = chosen.select("query", "passage").join(pairs, on=["query", "passage"], how="anti")
    length = params.train_cross_encoder.max_length
    model = {"model": project.CROSS_ENCODER, "max_length": length, "encoder": params.encoder}
    scored = score_candidates(unlabelled.sort("query", "passage"), queries, stage.work, **model)
    positive, negative = settings.positive_threshold, settings.negative_threshold
    table, counts = denoise(scored, pairs, positive_threshold=positive, negative_threshold=negative)
    write_table(stage.scratch / project.EXAMPLES.name, EXAMPLES, [table.to_arrow()])
    write_json(stage.scratch / "statistics.json", counts)
    for name, value in counts.items():
        log.info("%s: %d", name.replace("_", " "), value)


if __name__ == "__main__":
    run(main, shared=True)
