"""A project with a built index of random vectors, and a system that gives every text a vector of its own: no models."""

import hashlib
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gnn_encoder.base.files import fingerprint, write_json
from gnn_encoder.base.tables import PASSAGES
from gnn_encoder.controls.choose import Choice, Tried
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import BM25, load_params
from gnn_encoder.search.bm25 import BM25Index
from gnn_encoder.search.faiss_index import build
from gnn_encoder.text.encoder import DualEncoder

from .project import ROOT
from .texts import write, write_matrix

SYSTEM, D = "gnn_encoder", 16
BUILT = {f"p{i}": f"text {i}" for i in range(20)}


def vector(text: str) -> np.ndarray:
    """The vector of a text. *Shape:* (D,)."""
    seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
    return np.random.default_rng(seed).normal(size=D).astype(np.float32)


def fake_encoder(monkeypatch: pytest.MonkeyPatch, of: Callable[[str], np.ndarray]) -> None:
    """Let systems have an encoder that gives a query this vector, and reads 100 characters."""
    encoder = SimpleNamespace(for_inference=lambda: encoder)
    encoder.read_queries = lambda texts: (np.stack([*map(of, texts)]), np.array([len(text) > 100 for text in texts]))
    monkeypatch.setattr(DualEncoder, "load", lambda folder, precision: encoder)


def make(
    folder: Path,
    texts: dict[str, str],
    factory: str = "Flat",
    views: int = 1,
    system: str = SYSTEM,
    titles: Sequence[str] = (),
    vectors: np.ndarray | None = None,
) -> None:
    """Build the index of some passages in `folder`, which is the current folder; texts by pid.

    If no vectors are given, view 0 of a passage is the vector of its text, and the others are random.
    """
    for name in ("systems.yaml", "params.yaml"):
        shutil.copy(ROOT / name, folder)
    write(project.PASSAGES, PASSAGES, texts, titles or [""] * len(texts), texts.values())
    if vectors is None:
        vectors = np.stack([vector(text + "!" * view) for text in texts.values() for view in range(views)])
    shutil.rmtree(project.embeddings(system), ignore_errors=True)
    write_matrix(project.embeddings(system), vectors, fingerprint(texts=texts), views)
    folders = project.embeddings(system), project.index(system)
    build(*folders, factory=factory, pids=project.PASSAGES, system=system, seed=load_params().seed)


def make_hybrid(weight: float, depth: int, **facts: Any) -> None:
    """Add BM25's index to the current project, and a fusion in which its scores have this weight."""
    by_words = BM25(depth=5, stop_words="english", stemmer=None)
    BM25Index.build(project.PASSAGES, by_words).save(project.index("bm25"))
    chosen = Tried(setting={"weight": weight}, value=0.5)
    facts |= {"dense": SYSTEM, "depth": depth}
    choice = Choice(measure="RR@10", queries=1, chosen=chosen, tried=[chosen], facts=facts)
    write_json(project.RUNS / "hybrid" / "choice.json", choice)
