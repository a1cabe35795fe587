"""What judges the project's systems, and what their runs and measures are, by split and system."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import polars as pl

from gnn_encoder.baselines.choice import Choice, write_choice
from gnn_encoder.baselines.dev import DevQueries
from gnn_encoder.baselines.rankings import Ranking, read_ranking, write_ranking
from gnn_encoder.core.records import open_parquet
from gnn_encoder.evaluation.claim import Claim, measure_claim
from gnn_encoder.evaluation.judge import Judgements
from gnn_encoder.evaluation.measures import parse
from gnn_encoder.evaluation.params import Evaluate
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.systems import HYBRID, LEXICAL, MAIN, UNTOUCHED, registry


def judgements(split: str, section: Evaluate) -> Judgements:
    """What judges a split."""
    return Judgements.of(section, *project.tables(split))


def dev_queries(params: Params) -> DevQueries:
    """The dev queries that choose the baselines' settings."""
    return DevQueries.sample(
        judgements("dev", params.evaluate),
        measure=params.evaluate.significance,
        size=params.baselines.dev_queries,
        depth=params.retrieve.depth,
        seed=params.seed,
    )


def read_ranked(runs: Path, split: str) -> Ranking:
    """A run in a system's folder of runs. *Shape:* (queries of the split, longest ranking) both."""
    return read_ranking(runs / project.run_file("", split).name, project.queries(split), project.PASSAGES)


def write_rankings(folder: Path, system: str, choice: Choice, rankings: Mapping[str, Ranking]) -> None:
    """Write what a baseline chose and its runs into an unfinished artifact. `rankings`: split -> of all its queries."""
    write_choice(folder, choice)
    for split, ranking in rankings.items():
        target = folder / project.run_file(system, split).name
        write_ranking(target, ranking, project.queries(split), project.PASSAGES, system)


def read_values(systems: Iterable[str]) -> pl.DataFrame:
    """What was measured: columns system, split, qid, measure, value; in the order of `systems`."""
    files = (project.measured(system) / project.VALUES for system in systems)
    return pl.concat([pl.DataFrame(open_parquet(file).read()) for file in files])


def claim_of_main(values: pl.DataFrame, section: Evaluate) -> Claim:
    """The main system against those with one vector per passage and no graph, and what simple ones are better."""
    (measure,) = parse([section.significance])
    rivals = [system for system in registry().one_vector if system not in registry().graphs]
    return measure_claim(values, measure, system=MAIN, rivals=rivals, simple=(LEXICAL, UNTOUCHED), beside=[HYBRID])
