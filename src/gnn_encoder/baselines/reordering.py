"""Ranking the passages that systems found anew: the setting is chosen on dev, then both splits are ranked with it."""

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Protocol, TypeVar

from gnn_encoder.baselines.choice import NO_LIMITS, Choice, Limits, Setting, write_choice
from gnn_encoder.baselines.dev import DevQueries
from gnn_encoder.baselines.rankings import best
from gnn_encoder.core.rows import Rows, Scores
from gnn_encoder.core.runs import write_run
from gnn_encoder.core.storage.tables import read_column
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params

log = logging.getLogger(__name__)


class Candidates(Protocol):
    """The passages that may be ranked for each query of a split, and their score with each setting."""

    @property
    def passages(self) -> Rows:
        """*Shape:* (n, c), -1 where there is none."""

    def scores(self, setting: Setting) -> Scores:
        """*Shape:* (n, c), `NOTHING` where there is no passage."""


Found = TypeVar("Found", bound=Candidates)


def write_reordered(
    system: str,
    open_split: Callable[[str], Found],
    settings: list[Setting],
    params: Params,
    folder: Path,
    facts: Callable[[Found, Setting, int], Setting],
    limits: Limits = NO_LIMITS,
) -> None:
    """Choose the setting on dev, and write it and the runs of both splits.

    Args:
        open_split: the candidates of a split; dev is opened first.
        settings: what to try; of equally good ones the first is taken.
        facts: what else is written, of the dev candidates, the chosen setting, and the ranks that the measure takes.
        limits: values that end their list because there is none beyond.
    """
    dev, sample = open_split("dev"), DevQueries.sample(params)
    passages = dev.passages[sample.rows]
    tops = (best(passages, dev.scores(setting)[sample.rows], sample.depth)[0] for setting in settings)
    choice = sample.choose(settings, tops)
    choice = replace(choice, facts=facts(dev, choice.chosen.setting, sample.depth))
    log_choice(system, choice, limits)
    write_choice(folder, choice)
    pids = read_column(project.PASSAGES, "pid")
    for split in project.JUDGED:
        candidates = dev if split == "dev" else open_split(split)
        ranking = best(candidates.passages, candidates.scores(choice.chosen.setting), params.retrieve.depth)
        qids = read_column(project.queries(split), "qid").to_pylist()
        write_run(folder / project.run_file(system, split).name, qids, pids, *ranking, system)


def log_choice(system: str, choice: Choice, limits: Limits = NO_LIMITS) -> None:
    """Say what was chosen, of how many, and how good it is on dev."""
    told = ", ".join(f"{name} {value}" for name, value in choice.chosen.setting.items())
    points = f"{choice.measure} {100 * choice.chosen.value:.1f} on {choice.queries} dev queries"
    log.info("%s: %s, the best of %d settings: %s", system, told, len(choice.tried), points)
    for name in choice.open_ends(limits):
        value = choice.chosen.setting[name]
        log.warning("%s: %s %s ends the list that was tried; lengthen it (section baselines)", system, name, value)
