"""Training steps of the cross-encoder against plain binary cross-entropies over the same pairs."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from gnn_encoder.pipeline.params import Params, TrainCrossEncoder
from gnn_encoder.text.batches import text_batch
from gnn_encoder.text.cross_encoder import CrossEncoder
from gnn_encoder.text.pretrained import Source
from gnn_encoder.train import cross_encoder as module
from gnn_encoder.train.cross_encoder import CrossEncoderTask
from gnn_encoder.train.dual_encoder import Texts
from gnn_encoder.train.examples import Examples, draw_batch

LENGTH = 20


@pytest.fixture
def model(tiny_model: Path, tiny_params: Params) -> CrossEncoder:
    encoder = tiny_params.encoder.model_copy(update={"precision": "fp32", "dropout": 0.0})
    return CrossEncoder.from_pretrained(Source(str(tiny_model)), encoder, seed=4)


def task(model: CrossEncoder, texts: Texts, examples: Examples) -> CrossEncoderTask:
    values: dict[str, Any] = {"model": None, "max_length": LENGTH, "steps": 4, "batch_size": 4, "negatives": 2}
    settings = TrainCrossEncoder(**values, learning_rate=1e-3)
    tables, dev = (texts.query_tokens, texts.passage_tokens), (pl.DataFrame(), texts.query_tokens)
    return CrossEncoderTask(model, *tables, examples, settings, seed=3, dev=dev, batch_tokens=40)


@pytest.mark.parametrize(("number", "at_a_time"), [(0, 2), (3, 64)])
def test_step(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, number: int, at_a_time: int) -> None:
    model, texts, examples = (request.getfixturevalue(name) for name in ("model", "texts", "examples"))
    monkeypatch.setattr(module, "PAIRS_AT_A_TIME", at_a_time)
    trained = task(model, texts, examples)
    assert len(trained) == 4
    value = trained.step(number)
    found = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.zero_grad()

    epoch, within = divmod(number, 2)
    items = np.array_split(np.random.default_rng([3, epoch]).permutation(8), 2)[within]
    batch = draw_batch(examples, items, 2, np.random.default_rng([3, number, 0]))

    def logit(query: int, passage: int) -> torch.Tensor:
        rows = texts.query_tokens, np.array([query]), texts.passage_tokens, np.array([passage])
        return model.logits(text_batch(*rows, model.template, LENGTH))

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
