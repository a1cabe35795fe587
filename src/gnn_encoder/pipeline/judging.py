"""What judges the project's systems, and what their measures are, by split and system."""

from collections.abc import Iterable, Sequence

import polars as pl

from gnn_encoder.core.records import open_parquet
from gnn_encoder.core.runs import read_run
from gnn_encoder.evaluation.claim import Claim, measure_claim
from gnn_encoder.evaluation.judge import Judgements
from gnn_encoder.evaluation.measures import parse
from gnn_encoder.evaluation.params import Evaluate
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.systems import HYBRID, LEXICAL, LOGGED, MAIN, UNTOUCHED, registry


def judgements(split: str, section: Evaluate) -> Judgements:
    """What judges a split."""
    return Judgements.of(section, *project.tables(split))


def measure(system: str, names: Sequence[str], section: Evaluate) -> pl.DataFrame:
    """The values of a system's runs: columns system, split, qid, measure, value.

    Of a system that is judged on a sample, the queries of its run alone count.
    """
    parts = []
    for split in project.JUDGED:
        ranked = read_run(project.run_file(system, split))
        table = judgements(split, section).measure(ranked, names)
        if registry().is_sampled(system):
            table = table.filter(pl.col("qid").is_in(ranked["qid"].unique().implode()))
        parts.append(table.select(pl.lit(system).alias("system"), pl.lit(split).alias("split"), *table.columns))
    return pl.concat(parts)


def read_values(systems: Iterable[str]) -> pl.DataFrame:
    """What was measured: columns system, split, qid, measure, value; in the order of `systems`."""
    files = (project.measured(system) / project.VALUES for system in systems)
    return pl.concat([pl.DataFrame(open_parquet(file).read()) for file in files])


def claim_of_main(values: pl.DataFrame, section: Evaluate) -> Claim:
    """The main system against those with one vector per passage and no graph, and what simple ones are better."""
    (measure,) = parse([section.significance])
    rivals = [system for system in registry().one_vector if system not in registry().of_kind("graph")]
    simple = (LEXICAL, UNTOUCHED, LOGGED)
    return measure_claim(values, measure, system=MAIN, rivals=rivals, simple=simple, beside=[HYBRID])
