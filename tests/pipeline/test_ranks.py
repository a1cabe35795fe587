"""Several processes make what one makes, under torchrun: bytes where no sum is reordered, and gradients elsewhere.

The long form runs every stage whose work is shared, with one, two and three processes, and kills one of three in each
long one: `scripts/test.sh tests/pipeline/test_ranks.py --long`, some minutes.
"""

import json
import re
import shutil
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from ..faults.test_kill import BLOCK, FEATURES, OFTEN, QUERIES, SCORES
from ..pipelines import ROOT, Project, Ran

RANKS = Path(__file__).with_name("ranks.py")
SETTINGS = {**OFTEN, "gnn_encoder.train.dev:WINDOW": 16, "gnn_encoder.gnn.tasks:WINDOW": 16}
SETTINGS["gnn_encoder.train.candidates:WINDOW"] = 16
STEP = "gnn_encoder.train.loop:_Run.after_step"
# What a stage of each of these lists makes is read by none after it, so that all read what the one process made.
PASSES = (
    ("untrained",),
    ("encode_views", "dual_cross"),
    ("encode_corpus", "gnn_encoder"),
    ("embed_edges", "gnn_encoder"),
    ("cache_passages", "dual_encoder"),
    ("denoise",),
    ("pair_label",),
    ("build_graph", "gnn_encoder"),
    ("generate_queries",),
)
TRAININGS = (
    ("train_mgt", "gnn_encoder"),
    ("train_no_gnn",),
    ("train_dual_cross", "dual_cross"),
    ("train_dual_encoder", "dual_encoder_distilled"),
    ("train_dual_encoder", "pair_pretrained"),
    ("train_dual_encoder", "dual_encoder"),
    ("train_cross_encoder",),
    ("train_dual_encoder", "retriever"),
)
KILLS = (
    *(("encode_views dual_cross", BLOCK, 1), ("encode_corpus gnn_encoder", BLOCK, 1)),
    *(("embed_edges gnn_encoder", FEATURES, 1), ("cache_passages dual_encoder", BLOCK, 1)),
    *(("denoise", SCORES, 1), ("pair_label", SCORES, 1), ("generate_queries", QUERIES, 1)),
    *(("train_mgt gnn_encoder", STEP, 9), ("train_dual_cross dual_cross", STEP, 5)),
    *(("train_cross_encoder", STEP, 5), ("train_dual_encoder retriever", STEP, 3)),
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
    stages.set_params(encoder__dropout=0.0, mgt__joint__dropout=0.0, pair__teacher=None)
    shutil.copytree(stages.folder / "data/generated/generator", stages.folder / "generator")
    return stages


def under_torchrun(
    project: Project, ranks: int, stages: Any, *, restarts: int = 0, agents: int = 1
) -> tuple[Ran, dict[str, Any]]:
    """Run stages with so many processes. Returns how that went, and the gradients of each training's first step.

    Whatever ran before, the stages read what the experiment left.
    """
    data, kept, notes = (project.folder / name for name in ("data", "kept", "notes"))
    if kept.exists():
        shutil.rmtree(data)
        shutil.rmtree(notes)
    shutil.copytree(kept if kept.exists() else data, data if kept.exists() else kept)
    notes.mkdir()
    (notes / "order.json").write_text(json.dumps({"stages": stages, "settings": SETTINGS, "notes": str(notes)}))
    command = (str(RANKS), str(notes / "order.json"))
    if ranks == 1:
        ran = alone(project, *command)
    else:
        where = (
            ("--standalone",) if agents == 1 else ("--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{free_port()}")
        )
        how = (*where, f"--nnodes={agents}", f"--nproc-per-node={ranks // agents}", f"--max-restarts={restarts}")
        start = (sys.executable, "-m", "torch.distributed.run", *how, "--local-addr=localhost", *command)
        with ThreadPoolExecutor(agents) as pool:
            *_, ran = list(pool.map(lambda _: of_source(project).run(*start), range(agents)))
    assert ran.status == 0, ran.output[-5000:]
    return ran, torch.load(notes / "gradients.pt")


def alone(project: Project, *command: str) -> Ran:
    """Run a command as one process, which torchrun has not started."""
    return project.fork(command)


def of_source(project: Project) -> Project:
    """The project with this source, whatever the folder."""
    return Project(project.folder, project.environment | NEW_STORE | {"PYTHONPATH": str(ROOT / "src")})


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def artifacts(project: Project) -> dict[str, str]:
    found: dict[str, str] = project.hashes("data", "metrics")
    return found


def assert_alike(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys() and expected
    for name, gradients in expected.items():
        assert max(float(one.abs().max()) for one in gradients) > 1e-3
        for one, other in zip(found[name], gradients, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_two_processes_take_the_step_of_one(project: Project) -> None:
    _, expected = under_torchrun(project, 1, [[("train_mgt", "gnn_encoder")]])
    _, found = under_torchrun(project, 2, [[("train_mgt", "gnn_encoder")]])
    assert len(found) == 2, "of both phases"
    assert_alike(found, expected)


LAUNCHER = "torchrun --standalone --local-addr localhost --nproc-per-node"


def test_a_launcher_starts_processes_and_starts_them_again(stages: Project) -> None:
    before, script = artifacts(stages), stages.folder / "stages/cache_passages.py"
    script.write_text(KILLED_ONCE + script.read_text())
    shutil.rmtree(stages.folder / "data/embeddings/retriever")
    ran = launched(stages, f"{LAUNCHER} 2 --max-restarts 1", "stages/cache_passages.py", "retriever")
    assert ran.status == 0 and (stages.folder / "killed").exists(), ran.output
    assert artifacts(stages) == before


@pytest.mark.long
def test_too_many_processes_are_told(stages: Project) -> None:
    stages.set_params(train_retriever__batch_size=2)
    ran = launched(stages, f"{LAUNCHER} 3", "stages/train_dual_encoder.py", "retriever")
    rule = "error: a batch of 2 queries is too small for 3 processes; raise this stage's batch_size in params.yaml, or "
    assert ran.status != 0 and ran.stderr.count(f"{rule}start fewer") == 1, ran.output


def launched(project: Project, launcher: str, *command: str) -> Ran:
    """Run a stage as dvc.yaml does, with a launcher."""
    environment = {"GNN_ENCODER_LAUNCHER": launcher, "GNN_ENCODER_PYTHON": sys.executable}
    return Project(project.folder, project.environment | NEW_STORE | environment).run("scripts/python", *command)


@pytest.mark.long
@pytest.mark.parametrize("ranks", [2, 3])
def test_every_shared_stage(project: Project, ranks: int) -> None:
    project.set_params(dual_cross__generator__model="generator", dual_cross__generator__revision=None)
    passes, found = [[one] for one in PASSES], dict[int, Any]()
    for number in (1, ranks):
        under_torchrun(project, number, passes)
        found[number] = artifacts(project)
    assert [name for name in found[1] if found[1][name] != found[ranks].get(name)] == []
    project.set_params(dual_cross__generator__model=None)
    trainings = [[one] for one in (*TRAININGS, ("generate_queries",))]
    steps = {number: under_torchrun(project, number, trainings)[1] for number in (1, ranks)}
    assert_alike(steps[ranks], steps[1])


@pytest.mark.long
def test_a_lost_process(project: Project) -> None:
    stages = [[command.split(), *kill] for command, *kill in KILLS]
    under_torchrun(project, 3, [stage[:1] for stage in stages])
    expected = artifacts(project)
    ran, _ = under_torchrun(project, 3, stages, restarts=len(stages))
    assert len(list((project.folder / "notes").glob("killed-*"))) == len(stages)
    assert len(re.findall("resuming", ran.stderr)) >= len(stages)
    assert [name for name in expected if expected[name] != artifacts(project).get(name)] == []


@pytest.mark.long
def test_two_agents_that_meet_on_loopback(project: Project) -> None:
    """As on two machines, each of which has an agent with one process."""
    order = [[stage] for stage in (("cache_passages", "dual_encoder"), ("train_mgt", "gnn_encoder"))]
    _, expected = under_torchrun(project, 1, order)
    matrix = project.hashes("data/embeddings/dual_encoder")
    _, found = under_torchrun(project, 2, order, agents=2)
    assert project.hashes("data/embeddings/dual_encoder") == matrix
    assert_alike(found, expected)
