"""Every mistake of a user's is one line on stderr and status 2, and what had been made before stays as it was."""

import errno
import gzip
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

CORPUS, QRELS = (f"tests/tiny/beir/{name}" for name in ("corpus.jsonl", "qrels/test.tsv"))
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


def params(**values: Any) -> Change:
    return lambda project: project.set_params(**values)


def append(name: str, line: bytes) -> Change:
    def change(project: Any) -> None:
        with (project.folder / name).open("ab") as file:
            file.write(line + b"\n")

    return change


def cut_gzip(project: Any) -> None:
    corpus = project.folder / CORPUS
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


def with_nan(matrix: np.ndarray) -> np.ndarray:
    matrix[7, 3] = np.nan
    return matrix


def cut_off(name: str) -> Change:
    def change(project: Any) -> None:
        path = project.folder / name
        content = path.read_bytes()
        path.unlink()
        path.write_bytes(content[: len(content) // 2])

    return change


def remove(name: str) -> Change:
    def change(project: Any) -> None:
        path = project.folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return change


# Each mistake in a source's files is a test of tests/data, what is wrong with a value one of its package: here it is
# what a shell sees. The change, the stage, parts of the message.
TINY_MODEL = "tests/tiny/model"
TRAIN, ENCODE, LINK = "train_mgt", "encode_corpus", "build_graph"
LONGER = params(train_cross_encoder__max_length=200)
MISTAKES: dict[str, tuple[Change, str, list[str]]] = {
    "duplicate passage id": (
        append(CORPUS, b'{"_id": "bread-7", "text": "Some text."}'),
        *("prepare", ["corpus.jsonl, line 121", "bread-7"]),
    ),
    "truncated gzip": (cut_gzip, "prepare", ["corpus.jsonl.gz", "cut off"]),
    "unknown passage": (append(QRELS, b"q00\tnone-1\t1"), "prepare", ["qrels/test.tsv, line 18", "none-1"]),
    "unknown parameter": (params(mgt__betta=0.1), TRAIN, ["params.yaml", "mgt.betta", "not a parameter"]),
    "k beyond the corpus": (params(build_graph__k=121), LINK, ["build_graph.k is 121", "120"]),
    "unknown system": (lambda project: None, "cache_passages m_ce", ["'m_ce'", "dual_encoder"]),
    "cut weights": (cut_off(f"{TINY_MODEL}/model.safetensors"), "train_dual_encoder dual_encoder", [TINY_MODEL]),
    "no tokenizer": (remove(f"{TINY_MODEL}/tokenizer.json"), "train_dual_encoder dual_encoder", [TINY_MODEL]),
    "longer pairs than positions": (LONGER, "train_cross_encoder", ["train_cross_encoder.max_length", "200", "128"]),
    "no dual-encoder": (remove(f"{M_DE}/dual_encoder.json"), "cache_passages dual_encoder", [M_DE]),
    "NaN": (replace_matrix(with_nan), LINK, [f"{MATRIX}/embeddings.npy", "row 7", "NaN"]),
    "another dimension": (replace_matrix(lambda matrix: matrix[:, :16].copy()), TRAIN, ["16", "32"]),
    "another corpus": (replace_matrix(lambda matrix: matrix[:119].copy()), ENCODE, ["119", "120"]),
    "no graph": (remove("data/graph"), TRAIN, ["data/graph", "not built yet", "dvc repro"]),
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


@pytest.fixture
def small_disk(stages: Any) -> Iterator[Callable[[int], None]]:
    """A real file system of 8 MiB in the place of .scratch; `leave(KiB)` fills it up but for that much."""
    scratch: Path = stages.folder / ".scratch"
    mounted = []

    def leave(kib: int) -> None:
        kept = scratch.rename(scratch.with_name("kept"))
        scratch.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(scratch)]
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"no right to mount a small disk here: {done.stderr.strip()}")
        mounted.append(scratch)
        shutil.copytree(kept, scratch, dirs_exist_ok=True)
        free = shutil.disk_usage(scratch).free - 1024 * kib
        with (scratch / "filler").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, free)

    yield leave
    for folder in mounted:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk(stages: Any, small_disk: Callable[[int], None]) -> None:
    before = stages.hashes("data", "metrics", "plots")
    small_disk(200)
    check(stages, stages.stage(TRAIN), before, "no space left on the disk", "free space")


def test_a_write_that_fails(stages: Any) -> None:
    """Where no small disk can be mounted: the same error, from the second block on."""
    order = {
        "settings": {"gnn_encoder.text.corpus:WINDOW": 16},
        "counted": "gnn_encoder.base.matrix:ArrayWriter.write",
    }
    before = stages.hashes("data", "metrics", "plots")
    failed = stages.stage("cache_passages", "dual_encoder", **order, fail_after=[1, errno.ENOSPC])
    check(stages, failed, before, "no space left on the disk")
    resumed = stages.stage("cache_passages", "dual_encoder", **order)
    assert resumed.status == 0 and resumed.calls == 7, "one of the eight blocks was written before"
