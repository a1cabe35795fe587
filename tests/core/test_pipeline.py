"""dvc.yaml as the stages read it: equal to what DVC itself makes of it, and by hand on small ones."""

import os
import shutil
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import yaml
from dvc.repo import Repo
from dvc.stage import PipelineStage

from gnn_encoder.core.errors import UserError
from gnn_encoder.pipeline.declared import Declared, fill, find_stage, lookup, read_stages
from gnn_encoder.pipeline.experiment import init

from ..project import ROOT, declare

Write = Callable[..., None]
CONFIGS = [f"configs/{name}.yaml" for name in ("msmarco", "nq", "triviaqa")]


@pytest.fixture(scope="module", params=["params.yaml", "tests/tiny/params.yaml", *CONFIGS])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A DVC repository that holds no more than the declarations, with this experiment."""
    found = tmp_path_factory.mktemp("declared")
    declare(found)
    if request.param != "params.yaml":
        init([str(ROOT / request.param)], found / "params.yaml")
    Repo.init(str(found), no_scm=True).close()
    shutil.copytree(ROOT / "scripts", found / "scripts")
    return found


def paths(folder: Path, outputs: list[Any]) -> list[str]:
    return [os.path.relpath(output.fs_path, folder) for output in outputs]


def blocks(addresses: Iterable[str]) -> list[str]:
    """The stages in order, without their keys: loaders of YAML differ in the order of what `<<` joins."""
    return [name for name, _ in groupby(addresses, key=lambda address: address.partition("@")[0])]


def test_equals_what_dvc_reads(folder: Path) -> None:
    with Repo(str(folder)) as repo:
        expected = {}
        for stage in repo.index.stages:
            assert isinstance(stage, PipelineStage)
            read = [dep for dep in stage.deps if type(dep).__name__ == "Dependency"]
            named = {os.path.relpath(dep.fs_path, folder): dep.params for dep in stage.params}
            plots = [out for out in stage.outs if out.plot]
            metrics = [out for out in stage.outs if out.metric]
            outs = [out for out in stage.outs if not (out.plot or out.metric)]
            expected[stage.name] = (
                stage.cmd,
                paths(folder, read),
                sorted(named.get("params.yaml", [])),
                *(paths(folder, some) for some in (outs, metrics, plots)),
            )
    found = {
        one.address: (
            one.cmd,
            list(map(str, one.deps)),
            sorted(one.params),
            *(list(map(str, some)) for some in (one.outs, one.metrics, one.plots)),
        )
        for one in read_stages(folder)
    }
    assert len(found) > 90
    assert found == expected and blocks(found) == blocks(expected)


def test_there_is_a_stage_for_each_key(folder: Path) -> None:
    addresses = [one.address for one in read_stages(folder)]
    assert len(set(addresses)) == len(addresses)
    systems, params = (yaml.safe_load((folder / name).read_text()) for name in ("systems.yaml", "params.yaml"))
    each = {"cache_passages": systems["plain"], "train_mgt": systems["graphs"], "trial": params["evidence"]["trials"]}
    for stage, keys in each.items():
        found = [one for one in addresses if one.startswith(f"{stage}@")]
        assert found == [f"{stage}@{key}" for key in keys] and found


# --- by hand ----------------------------------------------------------------------------------------------------------

PIPELINE: dict[str, Any] = {
    "vars": ["more.yaml"],
    "stages": {
        "fit": {
            "cmd": "scripts/python stages/fit.py",
            "deps": ["data/raw", "src/package", "stages/fit.py", "data/raw", "report/metrics"],
            "params": ["seed", "fit.rate", {"more.yaml": ["systems"]}, "seed"],
            "outs": ["data/fit"],
            "metrics": [{"metrics/${fit.name}.json": {"cache": False}}],
            "plots": ["plots/fit.csv", {"plots/fit.png": {"cache": True}}],
        },
        "measure": {
            "foreach": "${systems}",
            "do": {
                "cmd": "scripts/python stages/measure.py ${key}",
                "deps": ["data/${item.folder}/${key}", "${item.base}"],
                "params": ["${item.section}"],
                "outs": ["data/measures/${key}"],
            },
        },
        "listed": {"foreach": ["a", 2], "do": {"cmd": "run ${item}", "outs": ["data/listed/${item}"]}},
    },
}
SYSTEMS = {
    "plain": {"folder": "matrix", "base": "data/model", "section": "fit"},
    "graph": {"folder": "edges", "base": "data/model", "section": "fit.rate"},
}


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(**files: Any) -> None:
        files = {"dvc": PIPELINE, "more": {"systems": SYSTEMS}, "params": PARAMS} | files
        for name, value in files.items():
            (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(value, sort_keys=False))

    return write


PARAMS = {"seed": 1, "fit": {"rate": 0.5, "name": "result"}}


def test_a_stage_by_hand(write: Write, tmp_path: Path) -> None:
    write()
    found = find_stage("fit", [], tmp_path)
    assert found == Declared(
        name="fit",
        key="",
        item=None,
        cmd="scripts/python stages/fit.py",
        deps=tuple(map(Path, ("data/raw", "src/package", "stages/fit.py", "data/raw", "report/metrics"))),
        params=("seed", "fit.rate"),
        outs=(Path("data/fit"),),
        metrics=(Path("metrics/result.json"),),
        plots=(Path("plots/fit.csv"), Path("plots/fit.png")),
    )
    assert found.address == "fit"
    assert found.inputs == [Path("data/raw"), Path("report/metrics")], "each once, code left out"


def test_a_stage_of_several_by_hand(write: Write, tmp_path: Path) -> None:
    write()
    found = find_stage("measure", ["graph"], tmp_path)
    assert found == Declared(
        name="measure",
        key="graph",
        item=SYSTEMS["graph"],
        cmd="scripts/python stages/measure.py graph",
        deps=(Path("data/edges/graph"), Path("data/model")),
        params=("fit.rate",),
        outs=(Path("data/measures/graph"),),
        metrics=(),
        plots=(),
    )
    assert found.address == "measure@graph"


def test_the_order_is_the_files(write: Write, tmp_path: Path) -> None:
    write()
    stages = list(read_stages(tmp_path))
    assert [one.address for one in stages] == ["fit", "measure@plain", "measure@graph", "listed@a", "listed@2"]
    assert [(one.key, one.item, one.cmd) for one in stages[3:]] == [("a", "a", "run a"), ("2", 2, "run 2")]


def test_what_is_filled_in() -> None:
    values = {"a": {"b": 3, "c": {"d": "x"}}, "key": "k", "none": None, "list": [1, 2]}
    assert fill("${a.b}", values) == 3 and fill("${ a.b }", values) == 3
    assert fill("${list}", values) == [1, 2] and fill("${a.c}", values) == {"d": "x"}
    assert fill("n${a.b}-${a.c.d}/${key}", values) == "n3-x/k"
    assert fill({"${key}": ["${a.b}", {"deep": "${a.c.d}!"}], "other": 5}, values) == {
        "k": [3, {"deep": "x!"}],
        "other": 5,
    }
    assert fill("${unknown} and ${a.unknown} and ${a.b.c}", values) == "${unknown} and ${a.unknown} and ${a.b.c}"
    assert fill("${unknown}", values) == "${unknown}"
    assert fill("$HOME {a.b}", values) == "$HOME {a.b}"


def test_lookup() -> None:
    values = {"a": {"b": 3}, "none": None}
    assert (lookup(values, "a.b"), lookup(values, "a.c"), lookup(values, "a.b.c", "x")) == (3, None, "x")
    assert lookup(values, "none", "x") is None


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("fitt", [], "dvc.yaml: has no stage fitt; its stages and the scripts in stages/ share names"),
        ("fit", ["plain"], "argument is 'plain': stage fit runs once; leave it out"),
        ("measure", [], "no argument: must be one of plain, graph"),
        ("measure", ["grap"], "argument is 'grap': must be one of plain, graph"),
        ("measure", ["plain", "graph"], "argument is 'plain graph': must be one of plain, graph"),
    ],
)
def test_a_stage_that_is_none(write: Write, tmp_path: Path, name: str, arguments: list[str], message: str) -> None:
    write()
    with pytest.raises(UserError) as caught:
        find_stage(name, arguments, tmp_path)
    assert str(caught.value).removeprefix(f"{tmp_path}/") == message


@pytest.mark.parametrize("name", ["dvc", "params", "more"])
def test_a_file_that_is_not_there(write: Write, tmp_path: Path, name: str) -> None:
    write()
    (tmp_path / f"{name}.yaml").unlink()
    with pytest.raises(UserError, match=rf"{name}\.yaml: no such file; "):
        list(read_stages(tmp_path))
