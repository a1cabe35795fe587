"""SIGKILL in the middle of each long stage, then the stage again: it resumes, and ends as if nothing had happened.

A stage kills itself after a given call of the function that writes its checkpoints or parts. Checkpoints are made as
often as possible and windows are small, so that the tiny experiment has many of both.
"""

import signal
from pathlib import Path
from typing import Any

import pytest

from ..pipeline.test_bad_input import MATRIX, check
from ..pipelines import MADE

OFTEN = {
    "gnn_encoder.train.loop:CHECKPOINT_SECONDS": 0.0,
    "gnn_encoder.text.batches:WINDOW": 16,
    "gnn_encoder.text.corpus:WINDOW": 16,
    "gnn_encoder.text.cross_encoder:WINDOW": 16,
    "gnn_encoder.dual_cross.generation:WINDOW": 16,
}
CHECKPOINT = "gnn_encoder.train.loop:save_checkpoint"
BLOCK = "gnn_encoder.base.matrix:ArrayWriter.write"
CACHES = (".scratch/tokens", ".scratch/unpacked_features")


# A stage, its artifact, what is counted, after which call it dies, and how many calls the rerun may repeat. A block is
# in place when the kill comes. So is a checkpoint; but after one of the best weights comes that of the step, and if
# the kill falls between the two, the step is repeated. Every dev score that is the best so far is a checkpoint too,
# the first one that of step 0.
CASES = [
    ("train_dual_encoder dual_encoder", "data/dual_encoder", CHECKPOINT, 4, 1, "M_de: resuming at step"),
    ("train_mgt", "data/mgt", CHECKPOINT, 14, 1, "encoder and GNN: resuming at step"),
    ("encode_corpus", "data/embeddings/gnn_encoder", BLOCK, 5, 0, "resuming what an interrupted run left"),
]


@pytest.mark.parametrize(("command", "artifact", "written", "after", "repeated", "resumes"), CASES)
def test_a_killed_stage_resumes(
    stages: Any, command: str, artifact: str, written: str, after: int, repeated: int, resumes: str
) -> None:
    run, order = command.split(), {"settings": OFTEN, "counted": written}
    if command == "train_mgt":  # also in the second phase as the default has it
        stages.set_params(mgt__softmax="corpus")
    before = stages.hashes("data")

    undisturbed = stages.stage(*run, **order)
    assert undisturbed.status == 0, undisturbed.stderr
    expected = stages.hashes("data")
    (stages.folder / artifact / "old").write_text("old\n")  # what tells it from the one that is being made
    old = stages.hashes(artifact)

    killed = stages.stage(*run, **order, kill_after=after)
    assert killed.status == -signal.SIGKILL
    assert stages.hashes(artifact) == old, "the artifact that was there is whole"
    assert stages.hashes(".scratch"), "what was done is kept"

    resumed = stages.stage(*run, **order)
    assert resumed.status == 0, resumed.stderr
    assert resumes in resumed.stderr
    twice = killed.calls + resumed.calls - undisturbed.calls
    assert 0 <= twice <= repeated, "nothing else is done twice"
    made = stages.hashes("data")
    assert made == expected
    assert {name for name in expected if expected[name] != before.get(name)} <= set(stages.hashes(artifact))
    assert not [name for name in stages.hashes(".scratch") if not name.startswith(CACHES)], "scratch is cleared"


@pytest.mark.parametrize(("renames", "present"), [(1, False), (2, True)])
def test_a_kill_while_the_artifact_is_replaced(stages: Any, renames: int, present: bool) -> None:
    """The old folder is renamed away, the new one takes its name."""
    expected = stages.hashes("data")
    (stages.folder / "data" / "prepared" / "old").write_text("old\n")
    killed = stages.stage("prepare", counted="pathlib:Path.rename", kill_after=renames)
    assert killed.status == -signal.SIGKILL
    assert (stages.folder / "data" / "prepared").exists() == present
    resumed = stages.stage("prepare")
    assert resumed.status == 0, resumed.stderr
    assert stages.hashes("data") == expected


def cut(path: Path) -> None:
    """Cut the last two bytes off a file, or lose an empty one."""
    content = path.read_bytes()
    path.unlink()  # it may be a link into a cache
    if content:
        path.write_bytes(content[:-2])


def test_a_stage_names_damage_and_its_cure_before_it_works(stages: Any) -> None:
    for path, command, cure in (
        (f"{MATRIX}/embeddings.npy", "train_mgt", "cache_passages.py dual_encoder"),
        ("data/mgt/gnn.safetensors", "encode_corpus", "train_mgt.py"),
        ("data/prepared/passages.parquet", "cache_passages dual_encoder", "prepare.py"),
    ):
        cut(stages.folder / path)
        before, artifact = stages.hashes(*MADE), str(Path(path).parent)
        ran = stages.stage(*command.split())
        check(stages, ran, before, f"{artifact}: damaged: ", "make it again: `scripts/python stages/", cure)
