import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from gnn_encoder.models.dual_encoder import DualEncoder, DualEncoderSettings
from gnn_encoder.models.quick import QuickEncoder

TEXTS = ["does medicare cover aids", "life", "", "cover " * 40, "Ünknown wörds, aids?"]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "does", "medicare", "cover", "aids", "life", "?", ","]


def save_encoder(folder: Path, pooling: str, similarity: str) -> DualEncoder:
    """A random BERT of two layers with weights large enough that every part matters."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=24
    )
    model = BertModel(config, add_pooling_layer=False)
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


@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize("similarity", ["dot", "cosine"])
def test_equals_the_dual_encoder(tmp_path: Path, pooling: str, similarity: str) -> None:
    save_encoder(tmp_path, pooling, similarity)
    expected = DualEncoder.load(tmp_path, precision="fp32").for_inference().embed_queries(TEXTS)
    quick = QuickEncoder.open(tmp_path)
    assert quick is not None
    found = quick.embed_queries(TEXTS)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=2e-5)


@pytest.mark.parametrize(
    "change", [{"model_type": "roberta"}, {"hidden_act": "relu"}, {"position_embedding_type": "relative_key"}]
)
def test_leaves_other_models_alone(tmp_path: Path, change: dict[str, str]) -> None:
    save_encoder(tmp_path, "cls", "dot")
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, **change}))
    assert QuickEncoder.open(tmp_path) is None


def test_leaves_other_number_formats_and_missing_files_alone(tmp_path: Path) -> None:
    encoder = save_encoder(tmp_path, "cls", "dot")
    encoder.query.to(torch.bfloat16).save_pretrained(tmp_path)
    assert QuickEncoder.open(tmp_path) is None
    assert QuickEncoder.open(tmp_path / "none") is None


def test_imports_no_torch() -> None:
    code = "import sys, gnn_encoder.models.quick; print({'torch', 'transformers'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"
