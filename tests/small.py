"""A project with the index of some passages, and an encoder of queries that is no model."""

import shutil
from collections.abc import Callable, Sequence
from types import SimpleNamespace

import numpy as np
import pytest

from gnn_encoder.base.files import write_json
from gnn_encoder.base.tables import PASSAGES
from gnn_encoder.controls.choose import Choice, Tried
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import BM25
from gnn_encoder.search.bm25 import BM25Index
from gnn_encoder.search.faiss_index import build
from gnn_encoder.text.encoder import DualEncoder

from .project import ROOT
from .texts import write, write_matrix

SYSTEM = "gnn_encoder_plus"


def fake_encoder(monkeypatch: pytest.MonkeyPatch, of: Callable[[str], np.ndarray]) -> None:
    """Let systems have an encoder that gives a query this vector, and reads 100 characters."""
    encoder = SimpleNamespace(for_inference=lambda: encoder)
    encoder.read_queries = lambda texts: (np.stack([*map(of, texts)]), np.array([len(text) > 100 for text in texts]))
    monkeypatch.setattr(DualEncoder, "load", lambda folder, precision: encoder)


def make(
    texts: dict[str, str], vectors: np.ndarray, *, system: str = SYSTEM, views: int = 1, titles: Sequence[str] = ()
) -> None:
    """Build the index of some passages, texts by pid, in the current folder. *Shape:* vectors (passages * views, d)."""
    for name in ("systems.yaml", "params.yaml"):
        shutil.copy(ROOT / name, name)
    write(project.PASSAGES, PASSAGES, texts, titles or [""] * len(texts), texts.values())
    shutil.rmtree(project.embeddings(system), ignore_errors=True)
    matrix = write_matrix(project.embeddings(system), vectors, views=views)
    index, encoder = project.index(system), project.encoder(system)
    build(matrix, index, factory="Flat", pids=project.PASSAGES, system=system, encoder=encoder, seed=0)


def make_hybrid(weight: float, depth: int) -> None:
    """Add BM25's index to the current project, and a fusion in which its scores have this weight."""
    by_words = BM25(depth=5, stop_words="english", stemmer=None)
    BM25Index.build(project.PASSAGES, by_words).save(project.index("bm25"))
    chosen, facts = Tried(setting={"weight": weight}, value=0.5), {"dense": SYSTEM, "depth": depth}
    choice = Choice(measure="RR@10", queries=1, chosen=chosen, tried=[chosen], facts=facts)
    write_json(project.RUNS / "hybrid" / "choice.json", choice)
