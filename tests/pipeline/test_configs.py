"""A committed experiment of the papers runs on the tiny corpus: what it chooses, but sizes and the base model."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

from gnn_encoder.pipeline.experiment import given, lay_over
from gnn_encoder.pipeline.project import MAIN
from gnn_encoder.pipeline.stage import read_stages

from ..pipelines import ROOT, TINY_PARAMS, Project, check_out

SIZES = {
    *("batch_size", "batch_tokens", "chunk_size", "steps", "depth", "k", "views", "range_max", "candidates"),
    *("range_min", "query_length", "passage_length", "max_length", "evaluations"),
}
OWN = {"data.name": "null", "encoder.model": "tests/tiny/model", "retrieve.depth": "100"}


@pytest.mark.long
def test_natural_questions_run(environment: dict[str, str], tmp_path: Path) -> None:
    """The main branch without DVC, in the order of its file."""
    project, config = check_out(Project(tmp_path / "project", environment)), ROOT / "configs" / "nq.yaml"
    tiny = [one for one in given([str(TINY_PARAMS)]).items() if not one[0].startswith("pair.")]
    kept = {name: value for name, value in tiny if name.startswith("data.") or name.rpartition(".")[2] in SIZES} | OWN
    values = [f"{name}={'null' if value is None else value}" for name, value in kept.items()]
    shutil.copy(ROOT / "params.yaml", project.folder)
    lay_over([str(config), *values], project.folder / "params.yaml")
    shutil.rmtree(project.folder / "pipelines")
    ran = project.fork(*(one.cmd.split()[1:] for one in read_stages(project.folder)))
    assert ran.status == 0, ran.output[-5000:]
    metrics = json.loads((project.folder / "metrics" / MAIN / "test.json").read_text())
    assert set(metrics[MAIN]) == set(yaml.safe_load(config.read_text())["evaluate"]["measures"])
