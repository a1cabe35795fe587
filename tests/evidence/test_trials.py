"""What each system of the evidence is made of."""

from pathlib import Path

import pytest

from gnn_encoder.core.errors import UserError
from gnn_encoder.core.params import Params, load_params
from gnn_encoder.core.pipeline import find_stage
from gnn_encoder.evidence.collect import baselines
from gnn_encoder.evidence.runs import depth_of
from gnn_encoder.evidence.trials import EXPLAINED, TABLES, measured_names, seeds, trials_of

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


def test_ablations_of_the_paper(params: Params) -> None:
    trials = params.evidence.trials
    names = [name for name, trial in trials.items() if trial.table == "ablations"]
    assert {name: changed(name, params) for name in names} == {
        "full": {},
        "no_gate": {"gate": 0.2},
        "no_edge_features": {"edge_features": "none"},
        "one_layer": {"layers": 1},
        "no_mgt": {"masking": "drop_labelled"},
        "no_gnn": {},
        "gnn_longer": {"gnn_epochs": 3},
        "joint_0": {"epochs": 1, "encoder_learning_rate": 0.0},
        "joint_2e6": {"epochs": 1},
        "joint_2e5": {"epochs": 1, "encoder_learning_rate": 2.0e-5},
        "joint_only": {"gnn_epochs": 0, "epochs": 3},
        "no_gnn_longer": {"epochs": 1},
    }
    assert trials_of("ablations", params) == {name: Path("data/trials") / name for name in names}
    assert [name for name, trial in trials.items() if trial.control] == ["no_gnn", "no_gnn_longer"]
    assert EXPLAINED == ("full", "no_mgt")
    assert {(trials[name].graph, trials[name].k) for name in names} == {("gnn_encoder", None)}
    assert Path("data/graph/gnn_encoder") in inputs("full") and Path("data/graph/widest") not in inputs("full")


def test_sweeps(params: Params) -> None:
    trials = params.evidence.trials
    of_k, of_beta = ([n for n, trial in trials.items() if trial.table == table] for table in ("k", "beta"))
    assert [trials[name].k for name in of_k] == [10, 15, 20, 25, 30, 35]
    assert {trials[name].graph for name in of_k} == {"widest"}
    assert all(Path("data/graph/widest") in inputs(name) for name in of_k)
    assert all(changed(name, params) == {} for name in of_k)
    assert [changed(name, params) for name in of_beta] == [{"beta": beta} for beta in (0.01, 0.1, 0.2, 0.5)]
    assert {(trials[name].graph, trials[name].k) for name in of_beta} == {("gnn_encoder", None)}
    assert list(trials_of("k", params)) == ["10", "15", "20", "25", "30", "35"]
    assert list(trials_of("beta", params)) == ["0.01", "0.1", "0.2", "0.5"]
    folders = [folder for table in TABLES for folder in trials_of(table, params).values()]
    assert len(set(folders)) == len(folders) == len(trials)
    assert trials_of("beta", params)["0.5"] == Path("data/trials/beta_50")
    assert baselines("k", params) == ["6"] and baselines("beta", params) == ["0.05"]
    assert baselines("ablations", params) == ["full", "no_gnn"]


def test_seeds_begin_with_the_experiment_s_own(params: Params) -> None:
    assert list(seeds(params)) == [13, 14, 15]


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ([], "no argument: must be one of full, no_gate, "),
        (["k_7"], "argument is 'k_7': must be one of full, no_gate, "),
        (["ablations", "full"], "argument is 'ablations full': must be one of full, no_gate, "),
    ],
)
def test_unknown_name(arguments: list[str], rule: str) -> None:
    with pytest.raises(UserError, match=rule):
        find_stage("trial", arguments, ROOT)


def test_runs_are_as_deep_as_their_measures(params: Params) -> None:
    assert measured_names(params) == ["RR@10", "R@5", "R@20", "R@100"]
    assert depth_of(["RR@10", "R@100", "nDCG@20"]) == 100 and depth_of(["RR@10"]) == 10
