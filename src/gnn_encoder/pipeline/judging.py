"""What judges the project's systems, and what their measures are, by split and system."""

from collections.abc import Iterable, Sequence

import polars as pl

from gnn_encoder.base.runs import read_run
from gnn_encoder.base.tables import open_parquet
from gnn_encoder.evaluation.claim import Claim, Splits
from gnn_encoder.evaluation.judge import Judgements
from gnn_encoder.evaluation.measures import parse
from gnn_encoder.evaluation.values import compare_with, means_by_system
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Evaluate
from gnn_encoder.pipeline.project import HYBRID, LEXICAL, LOGGED, MAIN, UNTOUCHED, registry


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
    """The main system against the best on dev of those with one vector per passage and no graph.

    Named are also the simple systems that are better than it on dev. p is that of a single comparison.

    Args:
        values: columns system, split, qid, measure, value.
    """
    (measure,) = parse([section.significance])
    found = means_by_system(values, [measure])
    means = {split: {system: of[measure] for system, of in systems.items()} for split, systems in found.items()}

    def compared(system: str, other: str) -> Splits:
        return {split: of[system] for split, of in compare_with(values, measure, {system: other}).items()}

    dev, graphs = means["dev"], registry().of_kind("graph")
    best = max((one for one in registry().one_vector if one in dev and one not in graphs), key=lambda one: dev[one])
    better = [one for one in (LEXICAL, UNTOUCHED, LOGGED) if one in dev and dev[one] > dev[MAIN]]
    named = [one for one in dev if one in (MAIN, best, HYBRID, *better)]
    return Claim(
        system=MAIN,
        measure=measure,
        best=best,
        means={split: {one: of[one] for one in named} for split, of in means.items()},
        against=compared(MAIN, best),
        better={one: compared(one, MAIN) for one in better},
    )
