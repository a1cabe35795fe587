"""Every mistake of a user's is one line on stderr and status 2, and what had been made before stays as it was."""

import gzip
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

M_DE, MATRIX = "data/dual_encoder", "data/embeddings/dual_encoder"
Change = Callable[[Any], None]


def check(project: Any, ran: Any, before: dict[str, str], *parts: str) -> None:
    """One error line that holds `parts`, no traceback, nothing below data/, metrics/ and plots/ changed."""
    assert ran.status == 2, ran.stderr
    assert len(ran.errors) == 1, ran.stderr
    message = ran.stderr.splitlines()[-1]
    assert message.startswith("error: ")
    for part in parts:
        assert part in message
    assert project.hashes("data", "metrics", "plots") == before


def cut_gzip(project: Any) -> None:
    corpus = project.folder / "tests/tiny/beir/corpus.jsonl"
    packed = gzip.compress(corpus.read_bytes())
    corpus.with_name("corpus.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    corpus.unlink()


def replace_matrix(make: Callable[[np.ndarray], np.ndarray]) -> Change:
    """Another matrix with the manifest that belongs to it."""

    def change(project: Any) -> None:
        folder = project.folder / MATRIX
        matrix = make(np.load(folder / "embeddings.npy"))
        (folder / "embeddings.npy").unlink()  # it may be a link into a cache
        np.save(folder / "embeddings.npy", matrix)
        manifest = json.loads((folder / "manifest.json").read_text()) | {"shape": matrix.shape, "sizes": None}
        (folder / "manifest.json").unlink()
        (folder / "manifest.json").write_text(json.dumps(manifest))

    return change


def no_dual_encoder(project: Any) -> None:
    (project.folder / M_DE / "dual_encoder.json").unlink()


def longer(project: Any) -> None:
    project.set_params(train_cross_encoder__max_length=200)


# Each mistake in a source's files is a test of tests/data, what is wrong with a value one of its package: here it is
# what a shell sees. The change, the stage, parts of the message.
MISTAKES: dict[str, tuple[Change, str, list[str]]] = {
    "truncated gzip": (cut_gzip, "prepare", ["corpus.jsonl.gz", "cut off"]),
    "longer pairs than positions": (longer, "train_cross_encoder", ["train_cross_encoder.max_length", "200", "128"]),
    "no dual-encoder": (no_dual_encoder, "cache_passages dual_encoder", [M_DE]),
    "another dimension": (replace_matrix(lambda matrix: matrix[:, :16].copy()), "train_mgt", ["16", "32"]),
    "another corpus": (replace_matrix(lambda matrix: matrix[:119].copy()), "encode_corpus", ["119", "120"]),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told(stages: Any, name: str) -> None:
    change, command, parts = MISTAKES[name]
    change(stages)
    before = stages.hashes("data", "metrics", "plots")
    check(stages, stages.stage(*command.split()), before, *parts)


def test_a_shell_sees_one_line_and_status_2(stages: Any, fresh: Any) -> None:
    """As DVC starts a stage: a Python of its own, through scripts/python."""
    stages.set_params(mgt__beta=1.0)
    before = stages.hashes("data")
    (stages.folder / "src").symlink_to(fresh.folder / "src")
    ran = stages.python("stages/prepare.py")
    check(stages, ran, before | stages.hashes("metrics", "plots"), "mgt.beta is 1.0")
    assert ran.stderr.count("\n") == 1


def test_a_full_disk(stages: Any) -> None:
    """A real file system of 8 MiB in the place of .scratch, of which 200 KiB are free."""
    before, scratch = stages.hashes("data", "metrics", "plots"), stages.folder / ".scratch"
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
