"""Packed texts have the vectors of a padded batch: with the kernel written plainly, and with the kernel."""

import itertools
from pathlib import Path

import pytest
import torch
from torch import Tensor

from gnn_encoder.text import batches
from gnn_encoder.text.batches import Batch
from gnn_encoder.text.cross_encoder import CrossEncoder
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.text.pretrained import Source

from ..encoders import settings
from .families import NARROW_HEADS, TEXTS, save_family

PACKABLE = ["bert", "bert-left", "roberta", "xlm-roberta", "electra"]


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
    monkeypatch.setattr(batches, "_has_kernel", lambda model: True)


def batch_of(encoder: DualEncoder | CrossEncoder) -> Batch:
    return Batch.of(encoder.tokenizer, TEXTS, length=16)


@pytest.mark.parametrize("pooling", ["mean", "cls", "max", "lasttoken"])
@pytest.mark.parametrize("kind", PACKABLE)
def test_as_in_a_padded_batch(kind: str, pooling: str, kernel: None, tmp_path: Path) -> None:
    params = settings(save_family(tmp_path, kind), pooling=pooling, query_length=16, passage_length=16)
    plain, packed = DualEncoder.from_pretrained(params).eval(), DualEncoder.from_pretrained(params).for_inference()
    batch = batch_of(plain)
    expected, found = (encoder.encode_passages(batch) for encoder in (plain, packed))
    assert packed.query.config._attn_implementation == batches.PACKED != plain.query.config._attn_implementation
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_a_model_that_packs_also_reads_padded_batches(kernel: None, tmp_path: Path) -> None:
    """A head of its own reads the [CLS] state of a padded batch."""
    source = Source(str(save_family(tmp_path, "roberta")))
    plain, packed = (CrossEncoder.from_pretrained(source, settings(tmp_path)).eval() for _ in range(2))
    packed.for_inference()
    batch = batch_of(plain)
    torch.testing.assert_close(packed.logits(batch), plain.logits(batch), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(packed.embed(batch), plain.embed(batch), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["t5", "mpnet", "distilbert", "modernbert", *NARROW_HEADS])
def test_others_are_padded(kind: str, kernel: None, tmp_path: Path) -> None:
    params = settings(save_family(tmp_path, kind), query_length=16, passage_length=16)
    plain, same = DualEncoder.from_pretrained(params).eval(), DualEncoder.from_pretrained(params).for_inference()
    assert same.query.config._attn_implementation != batches.PACKED
    assert torch.equal(same.encode_queries(batch_of(same)), plain.encode_queries(batch_of(plain)))


def test_no_kernel_here(tmp_path: Path) -> None:
    """A CPU, and a GPU in float32, compute padded batches."""
    params = settings(save_family(tmp_path, "bert"), query_length=16, passage_length=16, precision="fp32")
    encoder = DualEncoder.from_pretrained(params).for_inference()
    assert encoder.query.config._attn_implementation != batches.PACKED


@pytest.mark.gpu
@pytest.mark.parametrize("kind", PACKABLE)
def test_the_kernel(kind: str, tmp_path: Path) -> None:
    base = save_family(tmp_path, kind)
    plain, packed = (
        DualEncoder.from_pretrained(settings(base, query_length=16, passage_length=16, precision=precision))
        for precision in ("fp32", "bf16")
    )
    packed.for_inference()
    assert packed.query.config._attn_implementation == batches.PACKED
    batch = batch_of(plain)
    with torch.inference_mode():
        expected, found = (encoder.encode_passages(batch) for encoder in (plain.eval(), packed))
    assert torch.cosine_similarity(found, expected).min() > 0.98  # a bf16 number has two digits
