"""Every mistake of a user's is one line on stderr and status 2, and what had been made before stays as it was."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ..pipelines import MADE, ROOT

MATRIX = "data/embeddings/dual_encoder"


def check(project: Any, ran: Any, before: dict[str, str], *parts: str) -> None:
    """One error line that holds `parts`, no traceback, nothing below data/, metrics/ and plots/ changed."""
    assert ran.status == 2, ran.stderr
    assert len(ran.errors) == 1, ran.stderr
    message = ran.stderr.splitlines()[-1]
    assert message.startswith("error: ")
    for part in parts:
        assert part in message
    assert project.hashes(*MADE) == before


# Each mistake in a source's files is a test of tests/data, what is wrong with a value one of its package: here it is
# what a stage's user sees.


@pytest.mark.parametrize(
    ("part", "command", "told"),
    [(np.s_[:, :16], "train_mgt", ["16", "32"]), (np.s_[:119], "encode_corpus", ["119", "120"])],
)
def test_a_matrix_of_another_dimension_or_corpus(stages: Any, part: Any, command: str, told: list[str]) -> None:
    """With the manifest that belongs to it."""
    folder = stages.folder / MATRIX
    matrix, manifest = np.load(folder / "embeddings.npy")[part], json.loads((folder / "manifest.json").read_text())
    shutil.rmtree(folder)  # its files may be links into a cache
    folder.mkdir()
    np.save(folder / "embeddings.npy", np.ascontiguousarray(matrix))
    (folder / "manifest.json").write_text(json.dumps(manifest | {"shape": matrix.shape, "sizes": None}))
    before = stages.hashes(*MADE)
    check(stages, stages.stage(command), before, *told)


def test_pairs_longer_than_the_model_s_positions(stages: Any) -> None:
    stages.set_params(train_cross_encoder__max_length=200)
    before = stages.hashes(*MADE)
    check(stages, stages.stage("train_cross_encoder"), before, "train_cross_encoder.max_length", "200", "128")


def test_a_shell_sees_one_line_and_status_2(stages: Any) -> None:
    """As DVC starts a stage: a Python of its own, through scripts/python."""
    stages.set_params(mgt__beta=1.0)
    before = stages.hashes("data")
    (stages.folder / "src").symlink_to(ROOT / "src")
    ran = stages.python("stages/prepare.py")
    check(stages, ran, before | stages.hashes("metrics", "plots"), "mgt.beta is 1.0")
    assert ran.stderr.count("\n") == 1


def test_a_full_disk(stages: Any) -> None:
    """A real file system of 8 MiB in the place of .scratch, of which 200 KiB are free."""
    before, scratch = stages.hashes(*MADE), stages.folder / ".scratch"
    kept: Path = scratch.rename(scratch.with_name("kept"))
    scratch.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(scratch)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no right to mount a small disk here: {done.stderr.strip()}")
    try:
        shutil.copytree(kept, scratch, dirs_exist_ok=True)
        with (scratch / "filler").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(scratch).free - 200 * 1024)
        check(stages, stages.stage("train_mgt"), before, "no space left on the disk", "free space")
    finally:
        subprocess.run(["umount", str(scratch)], check=True)
