"""The generator: what a warm-started one begins as, its loss and gradients against torch's."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
import torch.nn.functional as F
from safetensors import safe_open
from transformers import AutoModelForSeq2SeqLM

from gnn_encoder.base.errors import UserError
from gnn_encoder.dual_cross import generator as module
from gnn_encoder.dual_cross.generator import GeneratorTask, QueryGenerator, parameter_groups, set_word_frequencies
from gnn_encoder.text.pretrained import load_model
from gnn_encoder.text.tokens import open_tokens

from ..encoders import settings

QUERIES, PASSAGES = [0, 1, 1, 2, 5, 7], [3, 0, 4, 11, 9, 2]


@pytest.fixture
def task(fresh: QueryGenerator, tables: Path) -> Callable[..., GeneratorTask]:
    pairs = pl.DataFrame({"query": QUERIES, "passage": PASSAGES})
    asked, passages = (
        open_tokens(tables / f"{one}.parquet", fresh.tokenizer, tables, 64) for one in ("train", "passages")
    )
    return partial(GeneratorTask, fresh, pairs, {"query": (asked, 8), "passage": (passages, 16)}, seed=4)


def test_both_halves_begin_as_the_encoder(fresh: QueryGenerator, tiny_model: Path) -> None:
    encoder = load_model(str(tiny_model), dropout=0.0).state_dict()
    found = fresh.model.state_dict()
    for name, value in encoder.items():
        if "pooler" not in name:
            assert torch.equal(found[f"encoder.{name}"], value) and torch.equal(found[f"decoder.bert.{name}"], value)
            cross = f"decoder.bert.{name.replace('.attention.', '.crossattention.', 1)}"
            assert torch.equal(found[cross], value)


def test_the_output_begins_by_naming_the_nearest_token(fresh: QueryGenerator) -> None:
    """A state of usual size goes through the transform as through a plain layer norm."""
    states = torch.randn(50, 32, generator=torch.Generator().manual_seed(0)) * 0.5
    plain = F.layer_norm(states, (32,)) @ fresh.model.encoder.get_input_embeddings().weight.T
    torch.testing.assert_close(fresh.model.decoder.cls(states), plain, rtol=0, atol=2e-3)


def test_word_frequencies(fresh: QueryGenerator, task: Callable[..., GeneratorTask]) -> None:
    counted = task(steps=2).token_counts(1174)
    queries = task(steps=2).batch("query", np.arange(6))
    ids = queries.input_ids[queries.attention_mask == 1].tolist()
    assert all(counted[token] == ids.count(token) for token in set(ids) - {fresh.template.single_prefix[0]})
    assert counted.sum() == len(ids) - 6  # all but [CLS]
    counts = torch.zeros(1174)
    counts[[5, 6]] = torch.tensor([3.0, 1.0])
    before = fresh.model.decoder.cls(torch.ones(1, 32))
    set_word_frequencies(fresh.model, counts)
    after = fresh.model.decoder.cls(torch.ones(1, 32)) - before
    assert (after[0, 5] - after[0, 6]).item() == pytest.approx(np.log(3.05 / 1.05), abs=1e-5)
    assert (after[0, 6] - after[0, 7]).item() == pytest.approx(np.log(1.05 / 0.05), abs=1e-5)


def test_a_folder_holds_it_all(bert: QueryGenerator, task: Callable[..., GeneratorTask], tmp_path: Path) -> None:
    bert.float().save(tmp_path / "model")
    assert not list((tmp_path / "model").glob("*.bin"))
    loaded = QueryGenerator.load(tmp_path / "model", precision="fp32").for_inference()
    assert loaded.end == bert.end
    batch, of_transformers = task(steps=2).batch("passage", np.arange(4)), AutoModelForSeq2SeqLM.from_pretrained
    how = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask, "decoder_input_ids": batch.input_ids}
    with torch.inference_mode():
        models = bert.model.eval(), loaded.model, of_transformers(tmp_path / "model").eval()
        expected, found, plain = (model(**how).logits for model in models)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    torch.testing.assert_close(plain, expected, rtol=1e-4, atol=1e-4)
    with safe_open(tmp_path / "model" / "model.safetensors", framework="pt") as file:
        assert sum("word_embeddings" in name for name in file.keys()) == 2  # noqa: SIM118


def test_an_encoder_that_makes_no_decoder_is_refused(t5_folder: Path) -> None:
    with pytest.raises(UserError, match=r"no decoder of a t5 model; name a\s.*dual_cross.generator.model"):
        QueryGenerator.from_encoder(str(t5_folder), settings(t5_folder), seed=0)


def by_torch(model: QueryGenerator, task: GeneratorTask, item: int) -> tuple[torch.Tensor, int]:
    """One pair alone, without padding, by the model's own forward and torch's cross-entropy."""
    passages, queries = (task.batch(side, np.array([item])) for side in ("passage", "query"))
    ids = queries.input_ids[:, : int(queries.attention_mask.sum())]
    logits = model.model(
        input_ids=passages.input_ids, attention_mask=passages.attention_mask, decoder_input_ids=ids[:, :-1]
    ).logits
    return F.cross_entropy(logits[0], ids[0, 1:], reduction="sum"), ids.shape[1] - 1


def test_step_equals_cross_entropy(fresh: QueryGenerator, task: Callable[..., GeneratorTask]) -> None:
    fresh.double()
    made = task(steps=4, batch_size=3)
    loss = made.step(3)
    found = {name: p.grad.clone() for name, p in fresh.named_parameters() if p.grad is not None}
    fresh.zero_grad()
    items = np.array_split(np.random.default_rng([4, 1]).permutation(6), 2)[1]
    losses, tokens = zip(*(by_torch(fresh, made, int(item)) for item in items), strict=True)
    expected = torch.stack(losses).sum() / sum(tokens)
    expected.backward()
    assert loss == pytest.approx(expected.item(), rel=1e-6)
    wanted = {name: p.grad for name, p in fresh.named_parameters() if p.grad is not None}
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-8)
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
