"""The generator's loss and gradients against torch's cross-entropy over whole logits, and that it learns."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
import torch.nn.functional as F

from gnn_encoder.dual_cross import generator as module
from gnn_encoder.dual_cross.generation import sampling, write_queries
from gnn_encoder.dual_cross.generator import IGNORED, GeneratorTask, QueryGenerator, parameter_groups, shifted
from gnn_encoder.text.batches import Batch
from gnn_encoder.text.tokens import open_tokens
from gnn_encoder.train.loop import fit

QUERIES, PASSAGES = [0, 1, 1, 2, 5, 7], [3, 0, 4, 22, 9, 2]
LENGTHS = {"query_length": 8, "passage_length": 16}


@pytest.fixture
def task(fresh: QueryGenerator, passages_table: Path, queries_table: Path) -> Callable[..., GeneratorTask]:
    pairs = pl.DataFrame({"query": QUERIES, "passage": PASSAGES})
    tables = (queries_table, passages_table)
    texts = [open_tokens(table, fresh.tokenizer, table.parent, 64) for table in tables]
    return partial(GeneratorTask, fresh, pairs, *texts, **LENGTHS, seed=4)


def test_shifted_by_hand() -> None:
    ids = torch.tensor([[2, 7, 8, 3, 0], [2, 9, 3, 0, 0]])
    inputs, labels = shifted(Batch(ids, (ids != 0).long(), torch.zeros_like(ids)))
    assert inputs.tolist() == [[2, 7, 8, 3], [2, 9, 3, 0]]
    assert labels.tolist() == [[7, 8, 3, IGNORED], [9, 3, IGNORED, IGNORED]]


def by_torch(model: QueryGenerator, task: GeneratorTask, item: int) -> tuple[torch.Tensor, int]:
    """One pair alone, without padding, by the model's own forward and torch's cross-entropy."""
    passages, queries = task.batch(np.array([item]))
    ids = queries.input_ids[:, : int(queries.attention_mask.sum())]
    logits = model.model(
        input_ids=passages.input_ids, attention_mask=passages.attention_mask, decoder_input_ids=ids[:, :-1]
    ).logits
    return F.cross_entropy(logits[0], ids[0, 1:], reduction="sum"), ids.shape[1] - 1


@pytest.mark.parametrize("at_a_time", [2, 64])
def test_step_equals_cross_entropy(
    fresh: QueryGenerator, task: Callable[..., GeneratorTask], monkeypatch: pytest.MonkeyPatch, at_a_time: int
) -> None:
    monkeypatch.setattr(module, "PAIRS_AT_A_TIME", at_a_time)
    fresh.double()
    made = task(epochs=2, batch_size=3)
    assert len(made) == 4
    loss = made.step(3)
    found = {name: p.grad.clone() for name, p in fresh.named_parameters() if p.grad is not None}
    fresh.zero_grad()
    items = np.array_split(np.random.default_rng([4, 1]).permutation(6), 2)[1]
    losses, tokens = zip(*(by_torch(fresh, made, int(item)) for item in items), strict=True)
    expected = torch.stack(losses).sum() / sum(tokens)
    expected.backward()
    assert loss == pytest.approx(expected.item(), rel=1e-6)
    for name, parameter in fresh.named_parameters():
        if parameter.grad is not None:
            torch.testing.assert_close(found[name], parameter.grad, rtol=1e-5, atol=1e-8)
    assert any("crossattention" in name and gradient.abs().max() > 1e-4 for name, gradient in found.items())


def test_every_weight_that_learns_is_in_one_group(fresh: QueryGenerator) -> None:
    fresh.freeze_lower(1)
    rest, new = parameter_groups(fresh, 1e-3)
    assert (rest["lr"], new["lr"]) == (1e-3, module.FRESH_RATE * 1e-3)
    names = {id(parameter): name for name, parameter in fresh.named_parameters()}
    slow, fast = ({names[id(parameter)] for parameter in group["params"]} for group in (rest, new))
    assert fast == {name for name in names.values() if "crossattention" in name or ".cls." in name}
    frozen = {name for name in names.values() if name.startswith("model.encoder.encoder.layer.0.")}
    assert frozen and slow == set(names.values()) - fast - frozen
    assert "model.encoder.embeddings.word_embeddings.weight" in slow


def test_learns_which_query_goes_with_which_passage(
    fresh: QueryGenerator, task: Callable[..., GeneratorTask], tmp_path: Path
) -> None:
    """Six pairs by heart: a query is written back word for word, from its passage alone."""
    made = task(epochs=120, batch_size=6)
    history = fit(made, parameter_groups(fresh, 3e-3), tmp_path, name="generator", title="generator", seed=1)
    assert history[0]["loss"] > 5 and history[-1]["loss"] < 0.35  # two passages share a query, not one a passage
    items = np.array([0, 1, 3, 4, 5])
    passages, queries = made.batch(items)
    how = sampling(fresh.eval(), seed=1, views=1, top_k=1, query_length=LENGTHS["query_length"])
    found = write_queries(fresh, passages, torch.from_numpy(items), how, batch_tokens=999)[:, 0]
    end = fresh.template.single_suffix[0]
    expected = queries.input_ids[:, 1:].masked_fill(queries.input_ids[:, 1:] == end, fresh.template.pad)
    assert torch.equal(found, expected[:, : found.shape[1]])
