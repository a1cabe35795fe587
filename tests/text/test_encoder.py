"""Model folders: what is written is what is read, others open it, and what does not fit is told in one line."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.files import fingerprint
from gnn_encoder.text.batches import single_batch
from gnn_encoder.text.cross_encoder import CrossEncoder
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.text.pretrained import resolve
from gnn_encoder.text.tokens import TextTokens

from ..encoders import cross_encoder, settings
from ..texts import text

ROWS, TEXTS = np.arange(6), [text(i, 1 + 9 * i) for i in range(6)]


def new(model: Path, **changes: object) -> DualEncoder:
    return DualEncoder.from_pretrained(settings(model, **changes)).eval()


@torch.no_grad()
def embed(encoder: DualEncoder) -> tuple[torch.Tensor, torch.Tensor]:
    tokens = TextTokens.of(TEXTS, encoder.tokenizer)
    query = encoder.encode_queries(single_batch(tokens, ROWS, encoder.template, 10))
    return query, encoder.encode_passages(single_batch(tokens, ROWS, encoder.template, 24))


@pytest.mark.parametrize(("pooling", "similarity", "shared"), [("mean", "cosine", False), ("cls", "dot", True)])
def test_saved_and_loaded_embeds_the_same(
    tiny_model: Path, tmp_path: Path, pooling: str, similarity: str, shared: bool
) -> None:
    """The fingerprint is of the weights that read passages."""
    encoder, names = new(tiny_model, shared=shared, pooling=pooling, similarity=similarity), ("one", "query", "other")
    encoder.save(tmp_path / "one")
    before, loaded = embed(encoder), DualEncoder.load(tmp_path / "one", precision="fp32").eval()
    assert (loaded.settings, loaded.dimension, loaded.scale) == (encoder.settings, 32, 20.0)
    assert (loaded.query is loaded.passage) == shared and not list(tmp_path.rglob("*.bin"))
    assert all(map(torch.equal, embed(loaded), before))
    with torch.no_grad():
        encoder.query.embeddings.word_embeddings.weight.mul_(2.0)
        encoder.save(tmp_path / "query")
        encoder.passage.embeddings.word_embeddings.weight[5, 5] += 1
        encoder.save(tmp_path / "other")
    after = embed(DualEncoder.load(tmp_path / "query", precision="fp32").eval())
    assert not torch.equal(after[0], before[0]) and torch.equal(after[1], before[1]) != shared
    one, query, other = (DualEncoder.passage_fingerprint(tmp_path / name) for name in names)
    assert (one == query) != shared and query != other


def test_bf16_computes_in_16_bits_and_learns_in_32(tiny_model: Path) -> None:
    narrow, expected = new(tiny_model, precision="bf16"), embed(new(tiny_model))
    tokens = TextTokens.of(TEXTS, narrow.tokenizer)
    narrow.encode_queries(single_batch(tokens, ROWS, narrow.template, 10)).sum().backward()
    learnt = [(weight.dtype, weight.grad.dtype) for weight in narrow.parameters() if weight.grad is not None]
    assert set(learnt) == {(torch.float32, torch.float32)}
    for _ in range(2):
        for one, other in zip(embed(narrow), expected, strict=True):
            assert one.dtype == torch.float32 and not torch.allclose(one, other, atol=1e-5)
            torch.testing.assert_close(one, other, rtol=0, atol=2e-2)
        narrow.for_inference()
    assert {weight.dtype for weight in narrow.parameters()} == {torch.bfloat16}


def spoil_config(**changes: object) -> Callable[[Path], object]:
    path = "config.json"
    return lambda folder: (folder / path).write_text(json.dumps(json.loads((folder / path).read_text()) | changes))


def only_a_pickle(folder: Path) -> None:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def more_tokens(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(["[one more]"])
    tokenizer.save_pretrained(folder)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (spoil_config(hidden_size=64), "cannot be loaded"),
        (spoil_config(num_hidden_layers=3), "holds no weights for 16 parameters of its configuration, such as"),
        (spoil_config(model_type="no_such_model"), "cannot be loaded"),
        (lambda folder: os.truncate(folder / "model.safetensors", 100_000), "cannot be loaded"),
        (only_a_pickle, "its weights are a pickle"),
        (lambda folder: [path.unlink() for path in folder.glob("tokenizer*")], "has no tokenizer files"),
        (more_tokens, "its tokenizer numbers tokens up to 1174, but it has 1174 embeddings; name files that belong"),
        (spoil_config(model_type="led", classifier_dropout=0.0), "is an encoder-decoder|Unrecognized configuration c"),
        (lambda folder: (folder / "config.json").write_text("{"), "cannot be loaded"),
        (lambda folder: shutil.rmtree(folder), "no such folder, and a hub"),
    ],
)
def test_a_folder_that_does_not_fit(
    tiny_model: Path, tmp_path: Path, spoil: Callable[[Path], object], told: str
) -> None:
    folder = shutil.copytree(tiny_model, tmp_path / "model")
    spoil(folder)
    for load in (cross_encoder, new):
        with pytest.raises(UserError, match=told) as caught:
            load(folder)
        assert str(caught.value).startswith(f"model {str(folder)!r}") and "\n" not in str(caught.value)
    if spoil is only_a_pickle:  # the error says how to convert it
        exec(str(caught.value).split('"')[1])
        assert fingerprint(folder / "model.safetensors") == fingerprint(tiny_model / "model.safetensors")


def test_models_by_name(tiny_model: Path) -> None:
    with pytest.raises(UserError, match=r"^[^\n]*holds no weights for 2 parameters .*, such as classifier.bias; "):
        CrossEncoder.load(tiny_model)
    assert resolve("some/name") == ("some/name", None)
    assert resolve("some/name@0123abc") == ("some/name", "0123abc")
    for wrong in ("/no/such", "./model", "a/b/c", "~/model", "some/name@"):
        with pytest.raises(UserError, match=rf"^model '{wrong}': no such folder, and a hub's names are"):
            resolve(wrong)
    with pytest.raises(UserError, match=r"no package no_such_package is installed; `pip install no-such-package`"):
        resolve("package:no_such_package/model")
    with pytest.raises(UserError, match=r"no package no.such is installed"):
        resolve("package:no.such/model")
    with pytest.raises(UserError, match=r"holds no config.json; correct the folder after the slash"):
        resolve("package:gnn_encoder/encoders")
