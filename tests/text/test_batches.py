"""Batches of like length, their order, and pooling; packed texts have the vectors of a padded batch."""

import itertools
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gnn_encoder.text import batches, device
from gnn_encoder.text.batches import Batch, Inputs, encode_rows, encode_windows, length_batches, padded, prepare_rows
from gnn_encoder.text.device import pool
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.text.tokens import TextTokens

from ..encoders import cross_encoder, settings
from .families import NARROW_HEADS, TEXTS, save_family


def test_no_rows_and_what_is_read_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    bare: Any = SimpleNamespace(second_type=0, pad=0, special=TextTokens.of_ids([[]] * 6))
    inputs = Inputs.singles(TextTokens.of_ids([[7, 8], [9], [6]]), bare, 10)
    assert inputs.batch().input_ids.tolist() == [[7, 8, *[0] * 6], [9, *[0] * 7], [6, *[0] * 7]]
    assert encode_rows(inputs, np.arange(0), lambda batch: batch.input_ids, 32, 2).shape == (0, 2)
    begun = Event()

    def prepare(inputs: Inputs, rows: np.ndarray, batch_tokens: int) -> Any:
        begun.set() if rows[0] == 1 else None
        if rows[0] == 2:
            raise ZeroDivisionError
        return prepare_rows(inputs, rows, batch_tokens)

    monkeypatch.setattr(batches, "prepare_rows", prepare)
    windows = encode_windows(inputs, lambda batch: batch.input_ids[:, :1], 32, 1, range(3))
    first, vectors = next(windows)
    assert (first, vectors.tolist()) == (0, [[7]]) and begun.wait(60), "the next one is made meanwhile"
    with pytest.raises(ZeroDivisionError):
        list(windows)


@pytest.mark.parametrize("budget", [1, 64, 3072, 10_000])
def test_batches_of_like_length(budget: int) -> None:
    """Each position once, none over the budget, one size a width but for the last; early ends make none dearer."""
    generator = np.random.default_rng(0)
    for _ in range(20):
        lengths, fixed = generator.integers(0, 130, size=generator.integers(1, 101)), int(generator.integers(0, 200))
        costs = []
        for found in (length_batches(lengths, budget, fixed), length_batches(lengths, budget)):
            assert sorted(np.concatenate(found).tolist()) == list(range(len(lengths)))
            shapes = [(len(batch), padded(max(1, int(lengths[batch].max())))) for batch in found]
            widths = [width for _, width in shapes]
            assert widths == sorted(widths, reverse=True)
            assert all(size * width <= budget or size == 1 for size, width in shapes)
            costs.append(sum(fixed + size * width for size, width in shapes))
        assert costs[0] <= costs[1] and len(set(shapes[:-1])) <= len(set(widths))
    # Two rows of 24 padded tokens and five of 8: an end after the two spares 5 x 16.
    lengths = np.array([24, 8, 7, 6, 17, 8, 3])
    assert [batch.tolist() for batch in length_batches(lengths, 1000, 79)] == [[0, 4], [1, 5, 2, 3, 6]]
    assert len(length_batches(lengths, 1000, 80)) == 1


STATES = torch.tensor([[[1.0, 2.0], [3.0, 4.0], [100.0, float("nan")]], [[3.0, 4.0], [0.0, 0.0], [0.0, 2.0]]])
MASK = torch.tensor([[1, 1, 0], [1, 1, 1]])
OF_KINDS = {"cls": [[1, 2], [3, 4]], "mean": [[2, 3], [1, 2]], "lasttoken": [[3, 4], [0, 2]], "max": [[3, 4], [3, 4]]}


@pytest.mark.parametrize(("kind", "expected"), OF_KINDS.items())
def test_pooling_leaves_padding_out_whatever_it_holds(kind: str, expected: list[list[float]]) -> None:
    assert pool(STATES, MASK, kind).tolist() == expected
    narrow = torch.tensor([256.0, *[1.0] * 999]).bfloat16()[None, :, None]  # in 16 bits 256 + 1 is 256
    assert kind != "mean" or pool(narrow, torch.ones(1, 1000), kind).item() == pytest.approx(1.255)


PACKABLE = ["bert", "bert-left", "roberta", "xlm-roberta", "electra"]
OTHERS = ["t5", "mpnet", "distilbert", "modernbert", *NARROW_HEADS]


def text_by_text(
    q: Tensor, k: Tensor, v: Tensor, ends: Tensor, ends_k: Tensor, longest: int, longest_k: int, *, scale: float | None
) -> Tensor:
    """What varlen_attn computes, as its documentation says it. *Shape:* (tokens, heads, d / heads)."""
    assert torch.equal(ends, ends_k) and longest == longest_k == int(ends.diff().max())
    assert int(ends[-1]) == len(q) and ends.dtype is torch.int32
    parts = []
    for first, end in itertools.pairwise(ends.tolist()):
        scores = torch.einsum("ihd,jhd->hij", q[first:end], k[first:end]) * (scale or q.shape[-1] ** -0.5)
        parts.append(torch.einsum("hij,jhd->ihd", scores.softmax(dim=-1), v[first:end]))
    return torch.cat(parts)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel on the CPU, in float32."""
    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", text_by_text)
    monkeypatch.setattr(device, "_has_kernel", lambda model: True)


def both_ways(base: Path, precision: str = "fp32", **changes: object) -> tuple[Batch, DualEncoder, DualEncoder]:
    """Texts, an encoder, and the same for inference, in some precision."""
    how = {"query_length": 16, "passage_length": 16} | changes
    plain, packed = (DualEncoder.from_pretrained(settings(base, precision=one, **how)) for one in ("fp32", precision))
    tokens = TextTokens.of(TEXTS, plain.tokenizer)
    batch = Inputs.singles(tokens, plain.template, 16).batch(np.arange(len(TEXTS)))
    return batch, plain.eval(), packed.for_inference()


@pytest.mark.parametrize(("kind", "packs"), [*((kind, True) for kind in PACKABLE), *((kind, False) for kind in OTHERS)])
def test_packed_as_in_a_padded_batch(kind: str, packs: bool, kernel: None, tmp_path: Path) -> None:
    batch, plain, packed = both_ways(save_family(tmp_path, kind), pooling="lasttoken")
    expected, found = (encoder.encode_passages(batch) for encoder in (plain, packed))
    assert (packed.query.config._attn_implementation == device.PACKED) == packs
    assert plain.query.config._attn_implementation != device.PACKED
    torch.testing.assert_close(found, expected, rtol=1e-4 * packs, atol=1e-5 * packs)
    if kind == "roberta":  # a head of its own reads the [CLS] state of a padded batch
        one, other = (cross_encoder(tmp_path).eval() for _ in range(2))
        other.for_inference()
        torch.testing.assert_close(other.logits(batch), one.logits(batch), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(other.embed(batch), one.embed(batch), rtol=1e-4, atol=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", PACKABLE)
def test_the_kernel(kind: str, tmp_path: Path) -> None:
    batch, plain, packed = both_ways(save_family(tmp_path, kind), "bf16")
    assert packed.query.config._attn_implementation == device.PACKED
    with torch.inference_mode():
        expected, found = (encoder.encode_passages(batch) for encoder in (plain, packed))
    assert torch.cosine_similarity(found, expected).min() > 0.98  # a bf16 number has two digits
