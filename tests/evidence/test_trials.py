"""What each system of the evidence is made of."""

import re
from pathlib import Path

import pytest

from gnn_encoder.core.errors import UserError
from gnn_encoder.evidence.params import EXPLAINED, TABLES
from gnn_encoder.evidence.summary import baselines, trials_of
from gnn_encoder.evidence.trials import depth_of, measured_names
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
    own = params.mgt.model_dump()
    return {key: value for key, value in made.mgt.model_dump().items() if value != own[key]}


def inputs(name: str) -> list[Path]:
    return find_stage("trial", [name], ROOT).inputs


ABLATIONS: dict[str, dict[str, object]] = {
    "full": {},
    "no_gate": {"gate": 0.2},
    "no_edge_features": {"edge_features": "none"},
    "one_layer": {"layers": 1},
    "no_mgt": {"masking": "drop_labelled"},
    "self_loops": {"graph": "self_loops"},
    "no_gnn": {},
    "gnn_longer": {"gnn_epochs": 3},
    "joint_0": {"epochs": 1, "encoder_learning_rate": 0.0},
    "joint_2e6": {"epochs": 1},
    "joint_2e5": {"epochs": 1, "encoder_learning_rate": 2.0e-5},
    "joint_only": {
        "gnn_epochs": 0,
        "epochs": 3,
        "encoder_learning_rate": 2.0e-5,
        "joint_gnn_learning_rate": 1.0e-3,
    },
    "no_gnn_longer": {"epochs": 1},
}
K = (10, 15, 20, 25, 30, 35)
BETA = {"beta_1": 0.01, "beta_10": 0.1, "beta_20": 0.2, "beta_50": 0.5}


def test_ablations(params: Params) -> None:
    trials = params.evidence.trials
    assert {name: changed(name, params) for name in ABLATIONS} == ABLATIONS
    assert [name for name in ABLATIONS if trials[name].control] == ["no_gnn", "no_gnn_longer"]
    assert {(trials[name].table, trials[name].graph, trials[name].k) for name in ABLATIONS} == {
        ("ablations", "gnn_encoder", None)
    }
    assert EXPLAINED == ("full", "no_mgt")
    assert Path("data/graph/gnn_encoder") in inputs("full") and Path("data/graph/widest") not in inputs("full")


def test_sweeps(params: Params) -> None:
    trials = params.evidence.trials
    for k in K:
        trial = trials[f"k_{k}"]
        assert (trial.table, trial.graph, trial.k) == ("k", "widest", k)
        assert Path("data/graph/widest") in inputs(f"k_{k}") and changed(f"k_{k}", params) == {}
    for name, beta in BETA.items():
        assert (trials[name].table, trials[name].graph, trials[name].k) == ("beta", "gnn_encoder", None)
        assert changed(name, params) == {"beta": beta}


def test_tables_hold_every_trial_in_the_order_of_the_experiment(params: Params) -> None:
    """In a sweep the name is the trial's number."""
    found = {table: trials_of(table, params) for table in TABLES}
    folders = [folder for table in found.values() for folder in table.values()]
    assert sorted(folders) == sorted(Path("data/trials") / name for name in params.evidence.trials)
    of_papers = {name: Path("data/trials") / name for name in ABLATIONS}
    assert {name: folder for name, folder in found["ablations"].items() if name in ABLATIONS} == of_papers
    assert [name for name in found["ablations"] if name in ABLATIONS] == list(ABLATIONS)
    assert [k for k in found["k"] if int(k) in K] == ["10", "15", "20", "25", "30", "35"]
    assert found["beta"]["0.5"] == Path("data/trials/beta_50")
    assert baselines("k", params) == ["6"] and baselines("beta", params) == ["0.05"]
    assert baselines("ablations", params) == ["full", "no_gnn"]


def test_runs_are_as_deep_as_their_measures(params: Params) -> None:
    assert measured_names(params) == ["RR@10", "R@5", "R@20", "R@100"]
    assert depth_of(["RR@10", "R@100", "nDCG@20"]) == 100 and depth_of(["RR@10"]) == 10
    for unlimited in ("AP", "nDCG(judged_only=True)@10"):
        with pytest.raises(UserError, match=re.escape(f"has {unlimited!r}: trials retrieve only as many")):
            depth_of(["RR@10", unlimited])
