"""Two processes make what one makes: bytes where no sum is reordered, and gradients elsewhere.

The long form runs every stage whose work is shared: `scripts/test.sh tests/pipeline/test_ranks.py --long`.
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from ..faults.test_kill import OFTEN
from ..pipelines import MADE, Project

RANKS = Path(__file__).with_name("ranks.py")
SETTINGS = {**OFTEN, "gnn_encoder.train.dev:WINDOW": 16, "gnn_encoder.gnn.tasks:WINDOW": 16}
SETTINGS["gnn_encoder.train.candidates:WINDOW"] = 16
# What a stage of each of these lists makes is read by none after it, so that all read what the one process made.
PASSES = (
    ("first_retrievers",),
    ("encode_views", "dual_cross"),
    ("encode_corpus",),
    ("embed_edges",),
    ("cache_passages", "dual_encoder"),
    ("denoise",),
    ("pair_label",),
    ("build_graph",),
    ("generate_queries",),
)
TRAININGS = (
    ("train_mgt",),
    ("train_no_gnn",),
    ("pretrain_dual_cross",),
    ("train_dual_cross", "dual_cross"),
    ("train_dual_encoder", "pair_pretrained"),
    ("train_dual_encoder", "dual_encoder"),
    ("train_cross_encoder",),
)
# As docs/scale.md has it: with one store for all starts, a second one waits at the addresses of the first.
NEW_STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
KILLED_ONCE = """
import os, signal
if os.environ.get("RANK") == "1" and not os.path.exists("killed"):
    open("killed", "w").close()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def project(stages: Project) -> Project:
    """The finished experiment, whose trainings have no dropout: each process draws its own."""
    stages.set_params(encoder__dropout=0.0)
    shutil.copytree(stages.folder / "data/generated/generator", stages.folder / "generator")
    return stages


def with_ranks(project: Project, ranks: int, *stages: tuple[str, ...]) -> dict[str, Any]:
    """Run stages with so many processes. Returns the gradients of each training's first step.

    Whatever ran before, the stages read what the experiment left.
    """
    data, kept, order, gradients = (project.folder / name for name in ("data", "kept", "order.json", "gradients.pt"))
    if kept.exists():
        shutil.rmtree(data)
    shutil.copytree(kept if kept.exists() else data, data if kept.exists() else kept)
    order.write_text(json.dumps({"stages": stages, "settings": SETTINGS, "gradients": str(gradients)}))
    if ranks == 2:
        project.two_ranks(str(RANKS), str(order))
    else:
        ran = project.fork([str(RANKS), str(order)])
        assert ran.status == 0, ran.output[-5000:]
    found: dict[str, Any] = torch.load(gradients)
    return found


def assert_alike(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys() and expected
    for name, gradients in expected.items():
        assert max(float(one.abs().max()) for one in gradients) > 1e-3
        for one, other in zip(found[name], gradients, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_two_processes_take_the_step_of_one(project: Project) -> None:
    expected, found = (with_ranks(project, ranks, ("train_mgt",)) for ranks in (1, 2))
    assert len(found) == 2, "of both phases"
    assert_alike(found, expected)


@pytest.mark.long
def test_a_launcher_starts_processes_and_starts_them_again(stages: Project) -> None:
    """As dvc.yaml runs a stage."""
    before, script = stages.hashes(*MADE), stages.folder / "stages/cache_passages.py"
    script.write_text(KILLED_ONCE + script.read_text())
    shutil.rmtree(stages.folder / "data/embeddings/dual_encoder")
    launcher = "torchrun --standalone --local-addr localhost --nproc-per-node 2 --max-restarts 1"
    environment = {"GNN_ENCODER_LAUNCHER": launcher, "GNN_ENCODER_PYTHON": sys.executable}
    launched = Project(stages.folder, stages.environment | NEW_STORE | environment)
    ran = launched.python("stages/cache_passages.py", "dual_encoder")
    assert ran.status == 0 and (stages.folder / "killed").exists(), ran.output
    assert stages.hashes(*MADE) == before


@pytest.mark.long
def test_every_shared_stage(project: Project) -> None:
    project.set_params(dual_cross__generator__model="generator", train_retriever__steps=0)
    found = []
    for ranks in (1, 2):
        with_ranks(project, ranks, *PASSES)
        found.append(project.hashes(*MADE))
    assert [name for name in found[0] if found[0][name] != found[1].get(name)] == []
    project.set_params(dual_cross__generator__model=None)
    steps, other = (with_ranks(project, ranks, *TRAININGS, ("generate_queries",)) for ranks in (1, 2))
    assert_alike(other, steps)
