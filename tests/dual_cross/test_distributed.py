"""Two processes train on a batch, and encode the views, as one does."""

from pathlib import Path

import numpy as np
import pytest
import torch

from gnn_encoder.base.matrix import open_matrix
from gnn_encoder.text import corpus
from gnn_encoder.text.tokens import TextTokens

from ..train.two_ranks import check
from ..two_processes import run_two
from . import two_ranks
from .conftest import pair_encoder


@pytest.fixture
def folder(tmp_path: Path, tiny_model: Path, generated: TextTokens, passage_tokens: TextTokens) -> Path:
    """What the processes share: an encoder and the tokens."""
    pair_encoder(tiny_model, shared=False).float().save(tmp_path / "encoder")
    for name, tokens in (("queries", generated), ("passages", passage_tokens)):
        (tmp_path / name).symlink_to(Path(tokens.ids.filename).parent)
    return tmp_path


def test_equal_one_process(
    folder: Path, generated: TextTokens, passage_tokens: TextTokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_two(Path(two_ranks.__file__), folder)
    encoder = two_ranks.open_encoder(folder)
    loss = two_ranks.step(encoder, generated, passage_tokens)
    expected = [p.grad for p in encoder.parameters()]
    assert max(float(g.abs().max()) for g in expected if g is not None) > 1e-2
    for rank in range(2):
        found = torch.load(folder / f"{rank}.pt", weights_only=True)
        check(found["exchanged"])
        assert found["loss"] == pytest.approx(loss, abs=1e-6)
        for one, other in zip(found["gradients"], expected, strict=True):
            torch.testing.assert_close(one, torch.zeros_like(one) if other is None else other, rtol=1e-4, atol=1e-6)
    monkeypatch.setattr(corpus, "WINDOW", 7)
    two_ranks.write_views(encoder.for_inference(), generated, passage_tokens, folder / "alone")
    np.testing.assert_array_equal(open_matrix(folder / "views"), open_matrix(folder / "alone"))
    np.testing.assert_array_equal(open_matrix(folder / "views-doubled"), 2 * open_matrix(folder / "views"))
    assert (folder / "views" / "manifest.json").read_bytes() == (folder / "alone" / "manifest.json").read_bytes()
