"""The graph of a query encoder computes what torch does, is made once, and follows its model."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gnn_encoder.base.errors import UserError
from gnn_encoder.models import onnx_graph, query_encoder
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.models.query_encoder import QueryEncoder, graph_of
from gnn_encoder.models.stated import POOLING

from ..encoders import dual_encoder
from .families import TEXTS, save_family


def save_encoder(folder: Path, pooling: str, similarity: str, seed: int = 0, kind: str = "bert") -> None:
    base = save_family(folder / "base", kind, seed)
    dual_encoder(base, pooling=pooling, similarity=similarity, query_length=12, passage_length=16).save(folder)


@pytest.mark.parametrize(("pooling", "similarity"), [("cls", "dot"), *((kind, "cosine") for kind in POOLING)])
def test_equals_the_dual_encoder(tmp_path: Path, pooling: str, similarity: str) -> None:
    save_encoder(tmp_path / "model", pooling, similarity)
    expected = DualEncoder.load(tmp_path / "model", precision="fp32").for_inference().embed_queries(TEXTS)
    encoder = QueryEncoder.open(tmp_path / "model", tmp_path / "graphs")
    found = encoder.embed_queries(TEXTS)
    assert found.dtype == np.float32 and np.ptp(expected, axis=0).max() > 0.01
    np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_allclose(encoder.embed_queries(TEXTS[:1]), expected[:1], atol=1e-5)
    assert encoder.ask(TEXTS[:4]).truncated == [False, False, False, True]


def test_a_graph_is_made_once_and_follows_its_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, cache = tmp_path / "model", tmp_path / "graphs"
    save_encoder(model, "cls", "dot")
    first = graph_of(model, cache)
    with monkeypatch.context() as patch:
        patch.setattr(query_encoder, "_export", lambda *_: pytest.fail("the graph is there"))
        assert graph_of(model, cache) == first
    save_encoder(model, "cls", "dot", seed=1)
    second = graph_of(model, cache)
    assert second != first and [*second.parent.parent.iterdir()] == [second.parent]


def test_a_kill_leaves_no_half_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_encoder(tmp_path / "model", "cls", "dot")
    written = onnx_graph.write_graph

    def cut(encoder: DualEncoder, path: Path) -> None:
        written(encoder, path)
        path.write_bytes(path.read_bytes()[:1000])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(onnx_graph, "write_graph", cut)
        graph_of(tmp_path / "model", tmp_path / "graphs")
    assert not [path for path in (tmp_path / "graphs").rglob("*") if path.is_file()]
    assert graph_of(tmp_path / "model", tmp_path / "graphs").is_file()


def test_a_graph_that_computes_something_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, pooling in (("other", "mean"), ("model", "cls")):
        save_encoder(tmp_path / name, pooling, "dot")
    other = DualEncoder.load(tmp_path / "other", precision="fp32")
    written = onnx_graph.write_graph
    monkeypatch.setattr(onnx_graph, "write_graph", lambda encoder, path: written(other.eval(), path))
    with pytest.raises(UserError, match=r"model: its ONNX graph, .* computes other embeddings, by .* of their length"):
        graph_of(tmp_path / "model", tmp_path / "graphs")
    assert not [path for path in (tmp_path / "graphs").rglob("*") if path.is_file()]


def test_what_has_no_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FNet's Fourier transform, which ONNX lacks for several dimensions. It also reads padding."""
    monkeypatch.setattr("gnn_encoder.models.dual_encoder.check_padding", lambda *_: None)
    save_encoder(tmp_path / "model", "mean", "dot", kind="fnet")
    with pytest.raises(UserError, match=r"model: has no ONNX graph, which search runs: .*fft_fftn.*; take another"):
        graph_of(tmp_path / "model", tmp_path / "graphs")


def test_without_torch_another_process_makes_the_graph(tmp_path: Path) -> None:
    """And whoever searches imports neither torch nor transformers."""
    save_encoder(tmp_path / "model", "mean", "dot")
    code = (
        "import sys; from pathlib import Path; from gnn_encoder.models.query_encoder import QueryEncoder\n"
        "encoder = QueryEncoder.open(Path('model'), Path('graphs'))\n"
        "print(encoder.embed_queries(['life'])[0].tolist(), *({'torch', 'transformers'} & set(sys.modules)), sep=';')"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    expected = DualEncoder.load(tmp_path / "model", precision="fp32").for_inference().embed_queries(["life"])
    np.testing.assert_allclose(json.loads(done.stdout), expected[0], atol=1e-5)
    assert done.stderr == "model: is prepared for search, once; this takes some seconds\n"


def test_what_is_no_dual_encoder(tmp_path: Path) -> None:
    save_encoder(tmp_path, "cls", "dot")
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"model\.safetensors: not built yet"):
        QueryEncoder.open(tmp_path, tmp_path / "graphs")


def test_a_damaged_graph_is_made_again(tmp_path: Path) -> None:
    save_encoder(tmp_path / "model", "cls", "dot")
    graph = graph_of(tmp_path / "model", tmp_path / "graphs")
    whole = graph.read_bytes()
    graph.write_bytes(whole[:1000])
    assert graph_of(tmp_path / "model", tmp_path / "graphs").read_bytes() == whole


def test_settings_without_a_length_are_told_before_a_graph_is_made(tmp_path: Path) -> None:
    save_encoder(tmp_path / "model", "mean", "cosine")
    (tmp_path / "model" / query_encoder.SETTINGS).write_text("{}")
    with pytest.raises(UserError, match="dual_encoder.json: not what its stage writes .query_length: Field required"):
        QueryEncoder.open(tmp_path / "model", tmp_path / "graphs")
    assert not (tmp_path / "graphs").exists()
