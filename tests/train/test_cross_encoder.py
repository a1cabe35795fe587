"""Training steps of the cross-encoder against plain binary cross-entropies over the same pairs."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from gnn_encoder.pipeline.params import TrainCrossEncoder
from gnn_encoder.text.batches import Inputs
from gnn_encoder.text.cross_encoder import CrossEncoder
from gnn_encoder.text.pretrained import Source
from gnn_encoder.train import cross_encoder as module
from gnn_encoder.train.cross_encoder import CrossEncoderTask
from gnn_encoder.train.dual_encoder import Texts
from gnn_encoder.train.examples import Examples, draw_batch

from ..encoders import settings

HOW = TrainCrossEncoder(model=None, max_length=20, steps=4, batch_size=4, negatives=2, learning_rate=1e-3)


@pytest.mark.parametrize(("number", "at_a_time"), [(0, 2), (3, 64)])
def test_step(
    tiny_model: Path, texts: Texts, examples: Examples, monkeypatch: pytest.MonkeyPatch, number: int, at_a_time: int
) -> None:
    monkeypatch.setattr(module, "PAIRS_AT_A_TIME", at_a_time)
    model = CrossEncoder.from_pretrained(Source(str(tiny_model)), settings(tiny_model), seed=4)
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
