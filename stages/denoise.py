"""denoise: denoised positives and hard negatives, chosen from the candidates by M_ce's scores (section 3.4)."""

import logging

import polars as pl

from gnn_encoder.base.files import write_json
from gnn_encoder.base.judgements import relevant_pairs
from gnn_encoder.base.tables import EXAMPLES, write_table
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.train.candidates import denoise, read_ranks, score_candidates
from gnn_encoder.train.dev import sample_queries
from gnn_encoder.train.examples import stream

log = logging.getLogger(__name__)


def main(stage: Stage) -> None:
    """Score the candidates and apply the thresholds."""
    params, settings, queries = stage.params, stage.params.denoise, project.queries("train")
    pairs = relevant_pairs(*project.tables("train"))
    candidates = read_ranks(project.CANDIDATES, end=settings.range_max)
    # A stream of its own: by that of the folds these queries would be the first that Masked Graph Training masks.
    rows = sample_queries(pairs, settings.queries or len(pairs), stream(params.seed, "denoise"))
    asked = pl.col("query").is_in(pl.Series(rows, dtype=pl.Int32).implode())
    scored = score_candidates(candidates.filter(asked), queries, stage.work, params)
    table, counts = denoise(scored, pairs, settings)
    write_table(stage.scratch / project.EXAMPLES.name, EXAMPLES, [table.to_arrow()])
    write_json(stage.scratch / "statistics.json", counts)
    for name, value in counts.items():
        log.info("%s: %d", name.replace("_", " "), value)
    if 2 * (few := counts["queries_given_their_lowest_candidate_as_negative"]) > len(rows):
        told = "warning: %d of %d queries train on their lowest candidate: M_ce scores none of theirs below %s; %s"
        cure = "raise denoise.negative_threshold, or train_cross_encoder.steps"
        log.warning(told, few, len(rows), settings.negative_threshold, cure)


if __name__ == "__main__":
    run(main, shared=True)
