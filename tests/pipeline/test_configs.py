"""A committed experiment of the papers runs on the tiny corpus: what it chooses, but sizes and the base model."""

import json
import shutil
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from gnn_encoder.pipeline.experiment import preview
from gnn_encoder.pipeline.project import MAIN
from gnn_encoder.pipeline.stage import read_stages

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


@pytest.mark.slow
def test_natural_questions_run(fresh: Project, copy_of: Callable[..., Project]) -> None:
    """The main branch without DVC, in the order of its file."""
    project, config = copy_of(fresh), ROOT / "configs" / "nq.yaml"
    whole, tiny = (
        preview([str(file)], ROOT / "params.yaml").model_dump(exclude_unset=True) for file in (config, TINY_PARAMS)
    )
    params = overridden(whole, tiny) | {"data": tiny["data"]}
    params["encoder"] |= {"model": "tests/tiny/model", "revision": None}
    params["retrieve"]["depth"] = 100  # for its measures
    (project.folder / "params.yaml").write_text(yaml.safe_dump(params))
    shutil.rmtree(project.folder / "pipelines")
    ran = project.fork(*(one.cmd.split()[1:] for one in read_stages(project.folder)))
    assert ran.status == 0, ran.output[-5000:]
    metrics = json.loads((project.folder / "metrics" / MAIN / "test.json").read_text())
    assert set(metrics[MAIN]) == set(yaml.safe_load(config.read_text())["evaluate"]["measures"])
