"""The graph of a query encoder computes what torch does, is made once, and follows its model."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing
from transformers import (
    AutoModel,
    BertConfig,
    DebertaV2Config,
    DistilBertConfig,
    ModernBertConfig,
    MPNetConfig,
    PretrainedConfig,
    PreTrainedTokenizerFast,
    RobertaConfig,
)

from gnn_encoder.core.errors import UserError
from gnn_encoder.models import onnx_graph, query_encoder
from gnn_encoder.models.dual_encoder import DualEncoder, DualEncoderSettings
from gnn_encoder.models.query_encoder import QueryEncoder, graph_of

TEXTS = ["does medicare cover aids", "life", "", "cover " * 40, "Ünknown wörds, aids?"] * 4
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "does", "medicare", "cover", "aids", "life", "?", ","]
SIZE: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24}
SPECIAL: dict[str, Any] = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
CONFIGS: dict[str, PretrainedConfig] = {
    "bert": BertConfig(vocab_size=len(WORDS), **SIZE),
    "distilbert": DistilBertConfig(vocab_size=len(WORDS), dim=16, n_layers=2, n_heads=4, hidden_dim=24),
    "roberta": RobertaConfig(vocab_size=len(WORDS), **SIZE, **SPECIAL, type_vocab_size=1),
    "mpnet": MPNetConfig(vocab_size=len(WORDS), **SIZE, **SPECIAL),
    "deberta": DebertaV2Config(
        vocab_size=len(WORDS), **SIZE, relative_attention=True, pos_att_type=["p2c", "c2p"], type_vocab_size=0
    ),
    "modernbert": ModernBertConfig(
        vocab_size=len(WORDS), **SIZE, **SPECIAL, cls_token_id=2, sep_token_id=3, local_attention=8
    ),
}


def save_encoder(folder: Path, pooling: str, similarity: str, kind: str = "bert", seed: int = 0) -> DualEncoder:
    """A random model of two layers with weights large enough that every part matters."""
    torch.manual_seed(seed)
    model = AutoModel.from_config(CONFIGS[kind])
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    tokenizer = Tokenizer(WordPiece({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = BertNormalizer(), BertPreTokenizer()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    settings = DualEncoderSettings(
        pooling=pooling, similarity=similarity, temperature=1.0, shared=True, query_length=12, passage_length=16
    )
    encoder = DualEncoder(
        query=model,
        passage=model,
        tokenizer=PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special),
        settings=settings,
        precision="fp32",
    )
    encoder.save(folder)
    return encoder


@pytest.mark.parametrize(
    ("kind", "pooling", "similarity"), [("bert", "cls", "dot"), *((kind, "mean", "cosine") for kind in CONFIGS)]
)
def test_equals_the_dual_encoder(tmp_path: Path, kind: str, pooling: str, similarity: str) -> None:
    save_encoder(tmp_path / "model", pooling, similarity, kind)
    expected = DualEncoder.load(tmp_path / "model", precision="fp32").for_inference().embed_queries(TEXTS)
    encoder = QueryEncoder.open(tmp_path / "model", tmp_path / "graphs")
    found = encoder.embed_queries(TEXTS)
    assert found.dtype == np.float32 and np.abs(expected[0] - expected[1]).max() > 0.01
    np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_allclose(encoder.embed_queries(TEXTS[:1]), expected[:1], atol=1e-5)
    assert [encoder.truncates(text) for text in TEXTS[:4]] == [False, False, False, True]


def test_a_graph_is_made_once_and_follows_its_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, cache = tmp_path / "model", tmp_path / "graphs"
    save_encoder(model, "cls", "dot")
    first = graph_of(model, cache)
    with monkeypatch.context() as patch:
        patch.setattr(query_encoder, "_export", lambda *_: pytest.fail("the graph is there"))
        assert graph_of(model, cache) == first
    save_encoder(model, "cls", "dot", seed=1)
    second = graph_of(model, cache)
    assert second != first and [*second.parent.iterdir()] == [second]


def test_a_kill_leaves_no_half_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_encoder(tmp_path / "model", "cls", "dot")
    written = onnx_graph.write_graph

    def cut(encoder: DualEncoder, path: Path) -> None:
        written(encoder, path)
        path.write_bytes(path.read_bytes()[:1000])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(onnx_graph, "write_graph", cut)
        graph_of(tmp_path / "model", tmp_path / "graphs")
    assert not [path for path in (tmp_path / "graphs").rglob("*") if path.is_file()]
    assert graph_of(tmp_path / "model", tmp_path / "graphs").is_file()


def test_a_graph_that_computes_something_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = save_encoder(tmp_path / "other", "mean", "dot")
    save_encoder(tmp_path / "model", "cls", "dot")
    written = onnx_graph.write_graph
    monkeypatch.setattr(onnx_graph, "write_graph", lambda encoder, path: written(other.eval(), path))
    with pytest.raises(UserError, match=r"model: its ONNX graph computes other embeddings, by .* of their length"):
        graph_of(tmp_path / "model", tmp_path / "graphs")
    assert not [path for path in (tmp_path / "graphs").rglob("*") if path.is_file()]


def test_without_torch_another_process_makes_the_graph(tmp_path: Path) -> None:
    """And whoever searches imports neither torch nor transformers."""
    save_encoder(tmp_path / "model", "mean", "dot")
    code = (
        "import sys; from pathlib import Path; from gnn_encoder.models.query_encoder import QueryEncoder\n"
        "encoder = QueryEncoder.open(Path('model'), Path('graphs'))\n"
        "print(encoder.embed_queries(['life'])[0].tolist(), *({'torch', 'transformers'} & set(sys.modules)), sep=';')"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    expected = DualEncoder.load(tmp_path / "model", precision="fp32").for_inference().embed_queries(["life"])
    np.testing.assert_allclose(json.loads(done.stdout), expected[0], atol=1e-5)
    assert done.stderr == "model: is prepared for search, once; this takes some seconds\n"


def test_what_is_no_dual_encoder(tmp_path: Path) -> None:
    save_encoder(tmp_path, "cls", "dot")
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"model\.safetensors: not built yet"):
        QueryEncoder.open(tmp_path, tmp_path / "graphs")
