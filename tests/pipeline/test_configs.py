"""A committed experiment of the papers runs on the tiny corpus: what it chooses, but sizes and the base model."""

import json
from collections.abc import Callable, Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import pytest
import yaml

from gnn_encoder.pipeline.experiment import preview
from gnn_encoder.pipeline.project import MAIN
from gnn_encoder.pipeline.stage import Declared, read_stages

from ..pipelines import ROOT, TINY_PARAMS, Project

SIZES = {
    *("batch_size", "batch_tokens", "chunk_size", "steps", "depth", "k", "views", "range_max", "candidates"),
    *("range_min",),
    *("query_length", "passage_length", "max_length", "evaluations", "dev_fraction"),
    *("seeds", "cases", "resamples"),
}


def overridden(config: dict[str, Any], tiny: dict[str, Any]) -> dict[str, Any]:
    """`config` with the sizes and the base model of the tiny experiment."""
    found = {}
    for key, value in config.items():
        other = tiny.get(key, value)
        if isinstance(value, dict) and isinstance(other, dict):
            found[key] = overridden(value, other)
        else:
            found[key] = other if key in SIZES else value
    return found


def complete(config: Path) -> dict[str, Any]:
    """The whole experiment of a config: this one laid over params.yaml."""
    return preview([str(config)], ROOT / "params.yaml").model_dump(exclude_unset=True)


def in_order(stages: list[Declared]) -> Iterator[list[str]]:
    """The scripts of stages and their arguments, each after those that make what it reads."""
    made = {path: one for one in stages for path in (*one.outs, *one.shown)}

    def makers(path: Path) -> set[str]:
        return {made[one].address for one in made if one == path or one in path.parents or path in one.parents}

    sources = {one.address: set().union(*map(makers, one.inputs)) for one in stages}
    for address in TopologicalSorter(sources).static_order():
        stage, _, key = address.partition("@")
        yield [f"stages/{stage}.py", *([key] if key else [])]


@pytest.mark.slow
def test_natural_questions_run(fresh: Project, copy_of: Callable[..., Project]) -> None:
    """The main branch in one process, without DVC, which reads the same stages: test_read_stages.py."""
    project, config, tiny = copy_of(fresh), ROOT / "configs" / "nq.yaml", complete(TINY_PARAMS)
    params = overridden(complete(config), tiny) | {"data": tiny["data"]}
    params["encoder"] |= {"model": "tests/tiny/model", "revision": None}
    params["retrieve"]["depth"] = 100  # for its measures
    (project.folder / "params.yaml").write_text(yaml.safe_dump(params))
    stages = [one for one in read_stages(project.folder) if one.file == Path("dvc.yaml")]
    ran = project.fork(*in_order(stages))
    assert ran.status == 0, ran.output[-5000:]
    metrics = json.loads((project.folder / "metrics" / MAIN / "test.json").read_text())
    assert set(metrics[MAIN]) == set(yaml.safe_load(config.read_text())["evaluate"]["measures"])
