"""What each system of the evidence is made of."""

from pathlib import Path

import pytest

from gnn_encoder.core.errors import UserError
from gnn_encoder.core.params import Params, load_params
from gnn_encoder.evidence.collect import baselines
from gnn_encoder.evidence.runs import depth_of
from gnn_encoder.evidence.trials import KINDS, Trial, find_trial, measured_names

ROOT = Path(__file__).parents[2]


@pytest.fixture
def params() -> Params:
    return load_params(ROOT / "params.yaml")


def changed(trial: Trial, params: Params) -> dict[str, object]:
    """What of `mgt` a trial changes."""
    own = params.mgt.model_dump()
    return {name: value for name, value in trial.params.mgt.model_dump().items() if value != own[name]}


def test_ablations_of_the_paper(params: Params) -> None:
    trials = {trial.name: trial for trial in KINDS["ablations"](params)}
    assert {name: changed(trial, params) for name, trial in trials.items()} == {
        "full": {},
        "no_gate": {"gate": 0.2},
        "no_edge_features": {"edge_features": "none"},
        "one_layer": {"layers": 1},
        "no_mgt": {"masking": "drop_labelled"},
        "no_gnn": {},
    }
    assert [name for name, trial in trials.items() if trial.control] == ["no_gnn"]
    assert [name for name, trial in trials.items() if trial.explained] == ["full", "no_mgt"]
    assert {trial.system.k for trial in trials.values()} == {params.build_graph.k}
    assert Path("data/graph/gnn_encoder") in trials["full"].inputs
    assert not any("graph" in path.parts for path in trials["no_gnn"].inputs)


def test_sweeps(params: Params) -> None:
    of_k, of_beta = KINDS["k"](params), KINDS["beta"](params)
    assert [trial.system.k for trial in of_k] == params.evidence.k
    assert {trial.system.graph for trial in of_k} == {Path("data/graph/widest")}
    assert all(changed(trial, params) == {} for trial in of_k)
    assert [changed(trial, params) for trial in of_beta] == [{"beta": beta} for beta in params.evidence.beta]
    assert len({trial.folder for trial in [*of_k, *of_beta]}) == len(of_k) + len(of_beta)
    assert baselines("k", params) == ["12"] and baselines("beta", params) == ["0.05"]


def test_seeds_begin_with_the_experiment_s_own(params: Params) -> None:
    trial = find_trial(["beta", "0.5"], params)
    assert list(trial.seeds) == [13, 14, 15] and trial.folder == Path("data/trials/beta/0.5")


@pytest.mark.parametrize("arguments", [[], ["full"], ["systems", "full"], ["ablations", "full", "more"]])
def test_unknown_kind(params: Params, arguments: list[str]) -> None:
    with pytest.raises(UserError, match="must be one of ablations, k, beta"):
        find_trial(arguments, params)


def test_unknown_name(params: Params) -> None:
    with pytest.raises(UserError, match="argument is '7': must be one of evidence.k: 10, 15, 20, 25, 30, 35"):
        find_trial(["k", "7"], params)


def test_runs_are_as_deep_as_their_measures(params: Params) -> None:
    assert measured_names(params) == ["RR@10", "R@5", "R@20", "R@100"]
    assert depth_of(["RR@10", "R@100", "nDCG@20"]) == 100 and depth_of(["RR@10"]) == 10
