"""What each system of the evidence is made of."""

from pathlib import Path
from typing import Any

import pytest

from gnn_encoder.evidence.params import EXPLAINED, TABLES
from gnn_encoder.evidence.summary import baselines, trials_of
from gnn_encoder.pipeline.declared import find_stage
from gnn_encoder.pipeline.params import Params, load_params

from ..project import ROOT


@pytest.fixture
def params() -> Params:
    return load_params(ROOT / "params.yaml")


def changed(name: str, params: Params) -> dict[str, object]:
    """What of the experiment a trial changes: values of `mgt`, and nothing else."""
    made = params.of_trial(params.evidence.trials[name])
    assert made.model_copy(update={"mgt": params.mgt}) == params
    own = flat(params.mgt.model_dump())
    return {key: value for key, value in flat(made.mgt.model_dump()).items() if value != own[key]}


def flat(section: dict[str, Any]) -> dict[str, object]:
    """A section with the keys of its phases beside its own."""
    phases = {f"{name}.{key}": value for name in ("alone", "joint") for key, value in section.pop(name).items()}
    return section | phases


def inputs(name: str) -> list[Path]:
    return find_stage("trial", [name], ROOT).inputs


ABLATIONS: dict[str, dict[str, object]] = {
    "full": {},
    "no_gate": {"gate": 0.2},
    "one_layer": {"layers": 1},
    "no_mgt": {"masking": "drop_labelled"},
    "self_loops": {"graph": "self_loops"},
    "no_gnn": {},
    "joint_2e5": {"joint.epochs": 1, "joint.encoder_learning_rate": 2.0e-5},
}


def test_ablations(params: Params) -> None:
    trials = params.evidence.trials
    assert {name: changed(name, params) for name in ABLATIONS} == ABLATIONS
    assert [name for name, trial in trials.items() if trial.control] == ["no_gnn"]
    assert all(trials[name].graph == "gnn_encoder" for name in EXPLAINED)
    assert Path("data/graph/gnn_encoder") in inputs("full") and Path("data/graph/widest") not in inputs("full")


def test_sweeps(params: Params) -> None:
    trial = params.evidence.trials["k_35"]
    assert (trial.table, trial.graph, trial.k) == ("k", "widest", 35)
    assert Path("data/graph/widest") in inputs("k_35") and changed("k_35", params) == {}
    assert changed("beta_50", params) == {"beta": 0.5}


def test_tables_hold_every_trial_in_the_order_of_the_experiment(params: Params) -> None:
    """In a sweep the name is the trial's number."""
    found = {table: trials_of(table, params) for table in TABLES}
    folders = [folder for table in found.values() for folder in table.values()]
    assert sorted(folders) == sorted(Path("data/trials") / name for name in params.evidence.trials)
    assert list(found["k"]) == ["10", "15", "20", "25", "30", "35"]
    assert found["beta"]["0.5"] == Path("data/trials/beta_50")
    assert baselines("k", params) == ["6"] and baselines("beta", params) == ["0.05"]
    assert baselines("ablations", params) == ["full", "no_gnn"]
