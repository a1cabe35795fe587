"""What a warm-started generator begins as, and that a folder holds all of it."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from transformers import AutoModelForSeq2SeqLM

from gnn_encoder.base.errors import UserError
from gnn_encoder.dual_cross.generator import QueryGenerator, set_word_frequencies
from gnn_encoder.pipeline.params import Encoder
from gnn_encoder.text.pretrained import Source, load_model
from gnn_encoder.text.tokens import TextTokens, open_tokens, single_batch


@pytest.fixture
def texts(passages_table: Path, fresh: QueryGenerator) -> TextTokens:
    return open_tokens(passages_table, fresh.tokenizer, passages_table.parent, 64)


def test_both_halves_begin_as_the_encoder(fresh: QueryGenerator, tiny_model: Path) -> None:
    encoder = load_model(Source(str(tiny_model)), dropout=0.0).state_dict()
    found = fresh.model.state_dict()
    for name, value in encoder.items():
        if "pooler" not in name:
            torch.testing.assert_close(found[f"encoder.{name}"], value, rtol=0, atol=0)
            torch.testing.assert_close(found[f"decoder.bert.{name}"], value, rtol=0, atol=0)
    for layer in range(2):
        for name in ("self.query.weight", "self.value.bias", "output.dense.weight", "output.LayerNorm.bias"):
            own, cross = (f"encoder.layer.{layer}.{kind}.{name}" for kind in ("attention", "crossattention"))
            torch.testing.assert_close(found[f"decoder.bert.{cross}"], encoder[own], rtol=0, atol=0)


def test_the_output_begins_by_naming_the_nearest_token(fresh: QueryGenerator) -> None:
    """A state of usual size goes through the transform as through a plain layer norm."""
    states = torch.randn(50, 32, generator=torch.Generator().manual_seed(0)) * 0.5
    logits = fresh.model.decoder.cls(states)
    plain = torch.nn.functional.layer_norm(states, (32,)) @ fresh.model.encoder.get_input_embeddings().weight.T
    torch.testing.assert_close(logits, plain, rtol=0, atol=2e-3)


def test_word_frequencies(fresh: QueryGenerator) -> None:
    counts = torch.zeros(1174)
    counts[[5, 6]] = torch.tensor([3.0, 1.0])
    before = fresh.model.decoder.cls(torch.ones(1, 32))
    set_word_frequencies(fresh.model, counts)
    after = fresh.model.decoder.cls(torch.ones(1, 32)) - before
    assert (after[0, 5] - after[0, 6]).item() == pytest.approx(np.log(3.05 / 1.05), abs=1e-5)
    assert (after[0, 6] - after[0, 7]).item() == pytest.approx(np.log(1.05 / 0.05), abs=1e-5)


def test_a_folder_holds_it_all(bert: QueryGenerator, texts: TextTokens, tmp_path: Path) -> None:
    bert = bert.float()
    bert.save(tmp_path)
    assert not list(tmp_path.glob("*.bin"))
    loaded = QueryGenerator.load(Source(str(tmp_path)), precision="fp32").for_inference()
    assert (loaded.start, loaded.end) == (bert.start, bert.end)
    batch = single_batch(texts, np.arange(4), bert.template, 20)
    with torch.inference_mode():
        expected, found, plain = (
            model(input_ids=batch.input_ids, attention_mask=batch.attention_mask, decoder_input_ids=batch.input_ids)
            for model in (bert.model, loaded.model, AutoModelForSeq2SeqLM.from_pretrained(tmp_path).eval())
        )
    torch.testing.assert_close(found.logits, expected.logits, rtol=0, atol=0)
    torch.testing.assert_close(plain.logits, expected.logits, rtol=1e-4, atol=1e-4)
    with safe_open(tmp_path / "model.safetensors", framework="pt") as file:
        assert sum("word_embeddings" in name for name in file.keys()) == 2  # noqa: SIM118


def test_an_encoder_that_makes_no_decoder_is_refused(t5_folder: Path, encoder_params: Encoder) -> None:
    with pytest.raises(UserError, match=r"no decoder of a t5 model; name a\s.*dual_cross.generator.model"):
        QueryGenerator.from_encoder(Source(str(t5_folder)), encoder_params, seed=0)
