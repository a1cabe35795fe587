"""Every family of encoders is trained, encodes alone and in a batch, is exported, and loads elsewhere, to 1e-5."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from transformers import AutoModelForSequenceClassification

from gnn_encoder.base import files
from gnn_encoder.base.errors import UserError
from gnn_encoder.export import export_sentence_transformer
from gnn_encoder.pipeline import project
from gnn_encoder.text.batches import Inputs, encode_rows
from gnn_encoder.text.corpus import embed_passages, embed_queries, open_passages, open_queries, passage_inputs
from gnn_encoder.text.cross_encoder import CrossEncoder
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.text.tokens import TextTokens, open_tokens

from ..encoders import cross_encoder, settings
from ..texts import write_passages, write_queries
from .families import FAMILIES, READ_PADDING, TEXTS, save_family

ROWS = np.arange(len(TEXTS))


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def base(family: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_family(tmp_path_factory.mktemp(family) / "base", family)


def new(base: Path, frozen: int, **prefixes: str) -> DualEncoder:
    encoder = DualEncoder.from_pretrained(settings(base, query_length=16, passage_length=16, **prefixes))
    encoder.freeze_lower(frozen)
    return encoder


def step(encoder: DualEncoder) -> None:
    """One of Eq. 2, with texts as queries and as passages."""
    batch = passage_inputs(encoder, TextTokens.of(TEXTS, encoder.tokenizer)).batch(np.arange(4))
    scores = encoder.encode_queries(batch) @ encoder.encode_passages(batch).T
    F.cross_entropy(scores, torch.tensor([3, 2, 1, 0])).backward()
    torch.optim.SGD([one for one in encoder.parameters() if one.requires_grad], lr=0.1).step()


@pytest.fixture(scope="module")
def trained(family: str, base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    encoder = new(base, frozen=0, query_prefix="aids? ", passage_prefix="aids? ")
    step(encoder.train())
    encoder.save(folder := tmp_path_factory.mktemp(family) / "trained")
    return folder


@pytest.fixture(scope="module")
def expected(trained: Path) -> NDArray[np.float32]:
    """Each text alone, with its prefix, by an encoder that puts none before a text."""
    encoder = DualEncoder.load(trained, precision="fp32").for_inference()
    encoder.settings = replace(encoder.settings, query_prefix="", passage_prefix="")
    found = np.concatenate([encoder.embed_queries(["aids? " + text]) for text in TEXTS])
    assert np.abs(found - encoder.embed_queries(TEXTS)).max() > 0.01, "the prefix matters"
    assert np.ptp(found, axis=0).max() > 0.01
    return found


def test_alone_and_in_a_batch(
    trained: Path, base: Path, expected: NDArray[np.float32], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of texts and of tables; a cross-encoder with the same settings puts no prefix before either."""
    monkeypatch.setattr(files, "SCRATCH", tmp_path / "scratch")
    monkeypatch.setattr(project, "PASSAGES", write_passages(tmp_path / "passages.parquet", [""] * len(TEXTS), TEXTS))
    encoder, queries = DualEncoder.load(trained, precision="fp32").for_inference(), tmp_path / "train.parquet"
    asked = open_queries(write_queries(queries, TEXTS), encoder)
    read, is_cut = encoder.read_queries(TEXTS)
    of_passages = embed_passages(encoder, open_passages(encoder), 4096, ROWS)
    for found in (read, embed_queries(encoder, asked, 4096), of_passages):
        np.testing.assert_allclose(found, expected, atol=1e-5)
    assert is_cut.tolist() == [len(text) > 100 for text in TEXTS]
    titled = write_passages(tmp_path / "titled" / "passages.parquet", ["life"], ["cover"])
    whole = TextTokens.of([f"aids? life {encoder.tokenizer.sep_token or ''} cover"], encoder.tokenizer)
    assert open_tokens(titled, encoder.tokenizer, tmp_path / "t", prefix="aids? ").ids.tolist() == whole.ids.tolist()
    if encoder.tokenizer.cls_token is None:  # no cross-encoder
        return
    model = cross_encoder(base, query_prefix="life ")
    plain = TextTokens.of(TEXTS, model.tokenizer)
    for tokens in (open_queries(queries, model), open_passages(model)):
        np.testing.assert_array_equal(tokens.ids, plain.ids)


def test_exports(trained: Path, expected: NDArray[np.float32], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project, "encoder", lambda system: trained)
    export_sentence_transformer("gnn_encoder", tmp_path)
    loaded = SentenceTransformer(str(tmp_path), device="cpu")
    for found in (loaded.encode(TEXTS), loaded.encode(TEXTS[:1])):
        np.testing.assert_allclose(found, expected[: len(found)], atol=1e-5)


def test_frozen_layers(family: str, base: Path) -> None:
    if family == "albert":
        with pytest.raises(UserError, match=r"^encoder.frozen_layers is 1: .* share their weights; set it to 0$"):
            new(base, frozen=1)
        return
    with pytest.raises(UserError, match=r"^encoder.frozen_layers is 4: the model has 3 layers; lower it$"):
        new(base, frozen=4)
    encoder = new(base, frozen=2)
    before = {name: value.clone() for name, value in encoder.query.named_parameters()}
    step(encoder)
    moved = [name for name, value in encoder.query.named_parameters() if not torch.equal(value, before[name])]
    layers = {next((part for part in name.split(".") if part.isdigit()), "after") for name in moved}
    assert {"2"} <= layers <= {"2", "after"} and not [name for name in moved if name.startswith("embed")]


def test_a_cross_encoder(family: str, base: Path, tmp_path: Path) -> None:
    """Trained and saved, it scores as transformers does, one pair at a time and together."""
    if family == "t5":
        with pytest.raises(UserError, match=r"has no \[CLS\] token"):
            cross_encoder(base)
        return
    model, again = (cross_encoder(base) for _ in range(2))
    tokens = TextTokens.of(TEXTS, model.tokenizer)
    pairs = Inputs.pairs(tokens, ROWS, tokens, ROWS[::-1].copy(), model.template, 24)
    batch = pairs.batch()
    logits = model.logits(batch)
    assert torch.equal(again.logits(batch), logits), "its head is drawn by the seed"
    F.softplus(-logits).sum().backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    model.save(tmp_path / "saved")
    peer = AutoModelForSequenceClassification.from_pretrained(tmp_path / "saved").eval()
    inputs = batch.arguments(peer)
    with torch.no_grad():
        states, expected = peer.base_model(**inputs).last_hidden_state, peer(**inputs).logits
    loaded = CrossEncoder.load(tmp_path / "saved", precision="fp32").for_inference()
    one_by_one = [encode_rows(pairs, ROWS[i : i + 1], loaded.logits, 4096, 1) for i in ROWS]
    for found in (np.concatenate(one_by_one), encode_rows(pairs, ROWS, model.eval().logits, 4096, 1)):
        np.testing.assert_allclose(found, expected[:, 0], atol=1e-4)
    torch.testing.assert_close(loaded.embed(batch), states[:, 0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", READ_PADDING)
def test_a_family_whose_vectors_depend_on_padding_is_refused(kind: str, tmp_path: Path) -> None:
    folder = save_family(tmp_path / "base", kind)
    for start in (lambda base: new(base, frozen=0), cross_encoder):
        with pytest.raises(UserError, match=r"is another than of the text alone, by 0\.\d+ of .*; take") as told:
            start(folder)
        assert str(told.value).startswith(f"model {str(folder)!r}: ") and "\n" not in str(told.value)
