"""GradCache: a batch in chunks has the value and the gradients of one big batch, with dropout too."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from gnn_encoder.text.device import device
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.train.dual_encoder import Texts, batch_loss, contrastive_step
from gnn_encoder.train.examples import Examples, TrainingBatch

from .conftest import tiny_encoder

BATCH = TrainingBatch(np.array([0, 1, 2, 4, 5]), np.array([0, 3, 1, 5, 6, 9, 11, 0, 3, 2]))


def read_by(encoder: DualEncoder, texts: Texts, chunk: int, batch_tokens: int = 2**31) -> Texts:
    return replace(texts, encoder=encoder, chunk_size=chunk, batch_tokens=batch_tokens)


def gradients(encoder: DualEncoder) -> dict[str, torch.Tensor]:
    return {name: p.grad.clone() for name, p in encoder.named_parameters() if p.grad is not None}


@pytest.mark.usefixtures("keep_float64")
@pytest.mark.parametrize(
    ("chunk", "batch_tokens", "shared", "alpha"),
    [(1, 10**6, True, 0.0), (2, 40, False, 0.3), (3, 8, True, 0.3), (100, 1000, False, 0.0)],
)
def test_chunks_equal_one_batch(
    tiny_model: Path, texts: Texts, examples: Examples, chunk: int, batch_tokens: int, shared: bool, alpha: float
) -> None:
    """Also where a chunk is read in parts of similar length."""
    whole, parts = (tiny_encoder(tiny_model, shared=shared) for _ in range(2))
    queries = whole.encode_queries(texts.queries(BATCH.queries))
    passages = whole.encode_passages(texts.passages(BATCH.passages))
    expected = batch_loss(queries, passages, BATCH, examples, whole.scale, alpha=alpha)
    expected.backward()
    in_parts = read_by(parts, texts, chunk, batch_tokens)
    assert contrastive_step(in_parts, BATCH, examples, alpha=alpha) == pytest.approx(expected.item(), abs=1e-12)
    found, wanted = gradients(parts), gradients(whole)
    assert len(wanted) > 30
    assert max(float(g.abs().max()) for g in wanted.values()) > 1e-3
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-9)


@pytest.fixture
def keep_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    """Embeddings are float32 by contract; that rounding would hide what is compared here."""

    def mean(states: torch.Tensor, mask: torch.Tensor, *, pooling: str, similarity: str) -> torch.Tensor:
        assert (pooling, similarity) == ("mean", "cosine")
        weights = (mask / mask.sum(dim=1, keepdim=True)).double()
        return torch.nn.functional.normalize((weights.unsqueeze(-1) * states).sum(dim=1), dim=-1)

    monkeypatch.setattr(torch.Tensor, "float", lambda self: self)
    monkeypatch.setattr("gnn_encoder.text.encoder.embedding", mean)


@pytest.mark.usefixtures("keep_float64")
@pytest.mark.parametrize("chunk", [2, 3])
def test_with_dropout_the_second_pass_repeats_the_first(
    tiny_model: Path, texts: Texts, examples: Examples, chunk: int
) -> None:
    encoder = tiny_encoder(tiny_model, dropout=0.3).train().to(device())
    texts = read_by(encoder, texts, chunk)
    one, other = (texts.represent_queries(BATCH.queries) for _ in range(2))
    assert float((one.value - other.value).detach().abs().max()) > 1e-2, "dropout does drop"
    passages = texts.represent_passages(BATCH.passages).chunks
    torch.manual_seed(5)
    contrastive_step(texts, BATCH, examples)
    found, after = gradients(encoder), torch.get_rng_state()
    # The same chunks, in the same order, from the same seed, all with their graphs.
    encoder.zero_grad()
    torch.manual_seed(5)
    sides = []
    for encode, batch, parts in (
        (encoder.encode_queries, texts.queries(BATCH.queries), one.chunks),
        (encoder.encode_passages, texts.passages(BATCH.passages), passages),
    ):
        assert len(parts) > 1
        read = [encode(batch.part(part)) for part in parts]
        sides.append(torch.cat(read)[np.argsort(np.concatenate(parts))])
    batch_loss(sides[0], sides[1], BATCH, examples, encoder.scale).backward()
    torch.testing.assert_close(found, gradients(encoder), rtol=0, atol=1e-9)
    assert bool((torch.get_rng_state() == after).all())  # the second pass left the generator where the first did


def test_a_chunk_has_the_tokens_of_so_many_longest_passages(tiny_model: Path, texts: Texts) -> None:
    encoder = tiny_encoder(tiny_model)
    assert texts.queries(BATCH.queries).lengths.tolist() == [6, 6, 10, 10, 10]
    for size, expected in ((2, [[2, 3], [4, 0, 1]]), (5, [[2, 3, 4, 0, 1]])):
        chunks = read_by(encoder, texts, size).represent_queries(BATCH.queries).chunks
        assert [chunk.tolist() for chunk in chunks] == expected
    for frozen in (False, True):  # a side without gradient is left alone
        passages = read_by(encoder.requires_grad_(not frozen), texts, 3).represent_passages(BATCH.passages)
        if frozen:
            passages.value.sum().backward()
        passages.backward()
        assert gradients(encoder) == {}
