"""Experiments: the committed ones load; every mistake is one line that names the parameter."""

from functools import reduce
from pathlib import Path
from typing import Any

import pytest
import yaml
from dvc.utils.hydra import apply_overrides

from gnn_encoder.base.errors import UserError
from gnn_encoder.pipeline.experiment import preview
from gnn_encoder.pipeline.params import Params, load_params

from ..project import ROOT

EXPERIMENTS = [ROOT / "params.yaml", *sorted((ROOT / "configs").glob("*.yaml"))]
DEFAULTS = "`git show HEAD:params.yaml` shows the default"


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.name)
def test_committed_experiments_load(path: Path) -> None:
    preview([str(path)], ROOT / "params.yaml")


@pytest.fixture
def values() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "params.yaml").read_text())
    return found


def load(values: object, folder: Path) -> Params:
    path = folder / "params.yaml"
    path.write_text(values if isinstance(values, str) else yaml.safe_dump(values))
    return load_params(path)


def message(values: object, folder: Path) -> str:
    with pytest.raises(UserError) as caught:
        load(values, folder)
    text = str(caught.value)
    assert "\n" not in text and text.startswith(f"{folder / 'params.yaml'}: ")
    return text.removeprefix(f"{folder / 'params.yaml'}: ")


def test_a_wrong_value(values: dict[str, Any], tmp_path: Path) -> None:
    for key, value, expected in (
        ("mgt.beta", 0.6, "0.6: input should be less than or equal to 0.5"),
        ("mgt.layers", 3, "3: input should be 1 or 2"),
        ("mgt.epoch", 2, "not a parameter (value 2); remove it or correct its name"),
        ("build_graph.k", 2.5, "2.5: input should be a valid integer"),
        ("build_graph.k", 40_000, "40000: input should be less than or equal to 32767"),
        ("data.name", "nq", "set, which source insuranceqa does not read; remove it"),
        ("data.names", 120, f"120: must be lines of `key: value`; {DEFAULTS}"),
        ("train_dual_encoder.learning_rate", float("inf"), "inf: input should be a finite number"),
        (
            "encoder.query_prefix",
            {"query": None},  # what YAML makes of `query: `
            "{'query': None}: must be a text; in a shell 'encoder.query_prefix=\"TEXT\"', in both kinds of quotes",
        ),
        ("train_retriever.learning_rate", "5.0e-5", "the text '5.0e-5': must be a number such as 5e-5, without quotes"),
    ):
        section, _, name = key.partition(".")
        assert message(values | {section: values[section] | {name: value}}, tmp_path) == f"{key} is {expected}"
    del values["mgt"]["beta"], values["index"]
    values["data"]["names"] = {"test": "t"}
    missing = [f"{key} is missing; {DEFAULTS}" for key in ("data.names.train", "mgt.beta", "index")]
    assert message(values, tmp_path) == "; ".join(missing)


def test_no_parameters_at_all(values: dict[str, Any], tmp_path: Path) -> None:
    assert message("", tmp_path).startswith("the file is None: must be lines of `key: value`")
    assert message(values | {"mgt": None}, tmp_path).startswith("mgt is None: must be lines of `key: value`")
    assert message(f"seed: {'9' * 5000}\n", tmp_path).startswith("not valid YAML: Exceeds the limit")
    long = message(values | {"mgt": "9" * 5000}, tmp_path)
    assert "999...: must be lines of `key: value`" in long and len(long) < 500
    assert message("seed: [", tmp_path).startswith("not valid YAML: ")
    twice = "seed: 1\nmgt:\n  beta: 0.1\n  gate: 0.2\n  beta: 0.1\n"
    assert message(twice, tmp_path).startswith('not valid YAML: line 5: found duplicate key "beta" with value')
    path = tmp_path / "params.yaml"
    path.write_bytes(yaml.safe_dump(values).encode() + b"# caf\xe9\n")
    with pytest.raises(UserError, match=r"params.yaml: not valid YAML: .*UTF-8"):
        load_params(path)
    path.unlink()
    with pytest.raises(UserError, match=r"params.yaml: no such file; run from the project's root, or `git checkout "):
        load_params(path)


def test_some_parameters_alone(values: dict[str, Any], tmp_path: Path) -> None:
    params = load(values, tmp_path)
    some = params.only(["seed", "mgt.beta", "pair.pretrain.alpha", "index", "index.factory"])
    assert (some.seed, some.mgt.beta, some.index) == (13, 0.05, params.index)
    assert some.pair.pretrain.alpha == 0.1
    for name in ("bm25", "mgt.layers", "pair.pseudo_labels", "pair.pretrain.steps"):
        with pytest.raises(AttributeError):
            reduce(getattr, name.split("."), some)
    with pytest.raises(AttributeError):
        some.value("mgt.gate")


@pytest.mark.parametrize("rate", ["2.0e-5", "2e-5", "1"])
def test_a_rate_set_by_dvc_exp_run(values: dict[str, Any], tmp_path: Path, rate: str) -> None:
    """DVC writes numbers as YAML 1.2 has them, 2e-05 without a point, which YAML 1.1 reads as text."""
    expected = load(values, tmp_path)
    apply_overrides(tmp_path / "params.yaml", [f"mgt.joint.encoder_learning_rate={rate}"])
    changed = load_params(tmp_path / "params.yaml")
    assert changed.mgt.joint.encoder_learning_rate == float(rate)
    mgt = changed.mgt.model_copy(update={"joint": expected.mgt.joint})
    assert changed.model_copy(update={"mgt": mgt}) == expected
