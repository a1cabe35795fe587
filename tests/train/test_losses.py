"""Eq. 1, 2, 12, PAIR's 3, 5, 6, Dual-Cross-Encoder's 7, 8, and GradCache, by plain loops: values and gradients."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from torch import Tensor

from gnn_encoder.pipeline.params import TrainCrossEncoder
from gnn_encoder.text.batches import Inputs
from gnn_encoder.text.device import device
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.train import cross_encoder as module
from gnn_encoder.train.cross_encoder import CrossEncoderTask
from gnn_encoder.train.dual_encoder import Texts, batch_loss, contrastive_step
from gnn_encoder.train.examples import Examples, TrainingBatch, draw_batch

from ..encoders import cross_encoder
from .conftest import tiny_encoder

# Five queries, their positives, then two hard negatives each. 0 is a positive of the queries 0 and 1, and 2's hard
# negative; 3 is another positive of 1 and 4's hard negative; 11 is judged relevant for 2 and is 1's hard negative.
BATCH = TrainingBatch(np.array([0, 1, 2, 4, 5]), np.array([0, 3, 1, 5, 6, 9, 10, 10, 11, 0, 2, 9, 3, 1, 2]))
# The query that a Dual-Cross-Encoder reads beside each passage: of positives and hard negatives their own, by hand.
BESIDE = np.array([0, 1, 2, 4, 5, 0, 0, 1, 1, 2, 2, 4, 4, 5, 5])
KNOWN = {(0, 0), (1, 0), (1, 3), (2, 1), (3, 2), (4, 4), (4, 5), (5, 6), (6, 7), (7, 8), (2, 11)}


def oracle(queries: Tensor, passages: Tensor, scale: float, alpha: float) -> Tensor:
    """Eq. 1, 2 and PAIR's 3, 5, 6 written out: one query, one passage at a time; the mean over queries."""

    def similarity(one: Tensor, other: Tensor) -> Tensor:
        return torch.exp(scale * (one * other).sum())

    losses, of_batch = [], list(enumerate(BATCH.passages.tolist()))
    for i, query in enumerate(BATCH.queries.tolist()):
        relevant = similarity(queries[i], passages[i])
        irrelevant = [j for j, passage in of_batch if j != i and (query, passage) not in KNOWN]
        by_query = relevant + sum(similarity(queries[i], passages[j]) for j in irrelevant)
        loss = -torch.log(relevant / by_query)
        by_passage = relevant + sum(similarity(passages[i], passages[j]) for j in irrelevant)
        losses.append((1 - alpha) * loss - alpha * torch.log(relevant / by_passage))
    return sum(losses) / len(losses)


def read_by(encoder: DualEncoder, texts: Texts, chunk: int, batch_tokens: int = 2**31) -> Texts:
    return replace(texts, encoder=encoder, chunk_size=chunk, batch_tokens=batch_tokens)


def gradients(encoder: DualEncoder) -> dict[str, Tensor]:
    return {name: p.grad.clone() for name, p in encoder.named_parameters() if p.grad is not None}


@pytest.fixture
def keep_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    """Embeddings are float32 by contract; that rounding would hide what is compared here."""

    def mean(states: Tensor, mask: Tensor, *, pooling: str, similarity: str) -> Tensor:
        assert (pooling, similarity) == ("mean", "cosine")
        weights = (mask / mask.sum(dim=1, keepdim=True)).double()
        return torch.nn.functional.normalize((weights.unsqueeze(-1) * states).sum(dim=1), dim=-1)

    monkeypatch.setattr(torch.Tensor, "float", lambda self: self)
    monkeypatch.setattr("gnn_encoder.text.encoder.embedding", mean)


@pytest.mark.usefixtures("keep_float64")
@pytest.mark.parametrize("pair_length", [None, 20])
@pytest.mark.parametrize(
    ("chunk", "batch_tokens", "shared", "alpha"),
    [(1, 10**6, True, 0.0), (2, 40, False, 0.3), (3, 8, True, 1.0), (100, 1000, False, 0.0)],
)
def test_a_step_in_chunks(
    tiny_model: Path,
    texts: Texts,
    examples: Examples,
    chunk: int,
    batch_tokens: int,
    shared: bool,
    alpha: float,
    pair_length: int | None,
) -> None:
    """Also where a chunk is read in parts of similar length, and with passages that are read beside queries."""
    whole, parts = (tiny_encoder(tiny_model, shared=shared, pair_length=pair_length) for _ in range(2))
    read, beside = texts.passages(BATCH.passages), (texts.query_tokens, BESIDE, texts.passage_tokens, BATCH.passages)
    if pair_length:
        read = Inputs.pairs(*beside, whole.template, pair_length).batch()
    queries = whole.encode_queries(texts.queries(BATCH.queries))
    expected = oracle(queries, whole.encode_passages(read), whole.scale, alpha)
    expected.backward()
    in_parts = read_by(parts, texts, chunk, batch_tokens)
    assert contrastive_step(in_parts, BATCH, examples, alpha=alpha) == pytest.approx(expected.item(), abs=1e-12)
    found, wanted = gradients(parts), gradients(whole)
    assert len(wanted) > 30
    assert max(float(g.abs().max()) for g in wanted.values()) > 1e-3
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-9)


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


# --- M_ce, by plain binary cross-entropies of the same pairs

HOW = TrainCrossEncoder(model=None, max_length=20, steps=4, batch_size=4, negatives=2, learning_rate=1e-3)


@pytest.mark.parametrize(("number", "at_a_time"), [(0, 2), (3, 64)])
def test_a_step_of_m_ce(
    tiny_model: Path, texts: Texts, examples: Examples, monkeypatch: pytest.MonkeyPatch, number: int, at_a_time: int
) -> None:
    monkeypatch.setattr(module, "PAIRS_AT_A_TIME", at_a_time)
    model = cross_encoder(tiny_model, seed=4)
    sides, dev = (texts.query_tokens, texts.passage_tokens), (pl.DataFrame(), texts.query_tokens)
    trained = CrossEncoderTask(model, *sides, examples, HOW, seed=3, dev=dev, batch_tokens=40)
    value = trained.step(number)
    found = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.zero_grad()

    epoch, within = divmod(number, 2)
    items = np.array_split(np.random.default_rng([3, epoch]).permutation(8), 2)[within]
    batch = draw_batch(examples, items, 2, np.random.default_rng([3, number, 0]))

    def logit(query: int, passage: int) -> torch.Tensor:
        pair = sides[0], np.array([query]), sides[1], np.array([passage])
        return model.logits(Inputs.pairs(*pair, model.template, 20).batch())

    losses = []
    for i, query in enumerate(batch.queries):
        drawn = batch.passages[4 + 2 * i : 6 + 2 * i]
        # What is drawn at random for a query without negatives may be relevant.
        negatives = [p for p in drawn if not examples.is_spared(np.array([query]), np.array([p]))]
        logits = torch.cat([logit(query, passage) for passage in [batch.passages[i], *negatives]])
        losses.append(-torch.log(torch.cat([logits[:1].sigmoid(), 1 - logits[1:].sigmoid()])))
    expected = torch.cat(losses).mean()
    expected.backward()
    assert value == pytest.approx(expected.item(), rel=1e-5)
    torch.testing.assert_close(found, {name: p.grad for name, p in model.named_parameters()}, rtol=1e-4, atol=1e-6)
