"""The trials of ablations and sweeps: each is the main system with another `mgt` section or another graph."""

from pathlib import Path

from gnn_encoder.evaluation.measures import parse
from gnn_encoder.evidence.params import Trial
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params

ABLATIONS, K, BETA = TABLES = ("ablations", "k", "beta")
FULL, NO_MGT = EXPLAINED = ("full", "no_mgt")  # trials whose attention is kept


def seeds(params: Params) -> range:
    """Seeds of a trial's runs."""
    return range(params.seed, params.seed + params.evidence.seeds)


def measured_names(params: Params) -> list[str]:
    """The measures of the evidence, in ir-measures' names; the measure of the comparisons is among them."""
    tested = parse([params.evaluate.significance], "evaluate.significance")
    return list(parse(params.evidence.measures, "evidence.measures") | tested)


def trials_of(table: str, params: Params) -> dict[str, Path]:
    """Name in a table -> folder of measures, for each trial of the table. In a sweep the name is the trial's number."""
    return {
        _shown(name, trial): project.trial(name)
        for name, trial in params.evidence.trials.items()
        if trial.table == table
    }


def _shown(name: str, trial: Trial) -> str:
    if trial.table == K:
        return str(trial.k)
    return str(trial.mgt["beta"]) if trial.table == BETA else name
