"""Projects in which passages are added and deleted: one for each kind of graph, and a small one without models."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from gnn_encoder.growing import commands
from gnn_encoder.pipeline.params import Params, load_params
from gnn_encoder.pipeline.project import registry
from gnn_encoder.text.encoder import DualEncoder, EmbeddedQueries

from ..built import build
from ..small import BUILT, encode, make, vector


class TextIsVector:
    """Embeds a query as the passage of the same text."""

    def embed_queries(self, texts: list[str]) -> np.ndarray:
        return np.stack([vector(text) for text in texts])

    def for_inference(self) -> "TextIsVector":
        return self

    def read_queries(self, texts: list[str]) -> EmbeddedQueries:
        return EmbeddedQueries(self.embed_queries(texts), np.zeros(len(texts), dtype=bool))


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project without models, as the current folder; a passage is the best for its own text."""
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setattr(commands, "open_encoder", lambda system: encode)
    monkeypatch.setattr(DualEncoder, "load", lambda model, precision: TextIsVector())
    make(Path.cwd(), BUILT)
    return Path.cwd()


@pytest.fixture
def project_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Params]]:
    """Builds a project of some kind, which becomes the current folder."""

    def make_current(name: str) -> Params:
        folder = tmp_path / "project"
        folder.mkdir()
        monkeypatch.chdir(folder)
        build(folder, name)
        return load_params()

    yield make_current
    registry.cache_clear()  # one of them has a registry of its own
