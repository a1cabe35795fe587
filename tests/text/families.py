"""Tiny random models of the families that people take encoders from, each with a tokenizer as its family has it.

BERT stands there twice, once with a tokenizer that says to pad and to cut on the left.
"""

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing
from transformers import (
    AlbertConfig,
    AutoModel,
    BertConfig,
    ConvBertConfig,
    DebertaV2Config,
    DistilBertConfig,
    ElectraConfig,
    FNetConfig,
    ModernBertConfig,
    MPNetConfig,
    PretrainedConfig,
    PreTrainedTokenizerFast,
    RobertaConfig,
    T5Config,
    XLMRobertaConfig,
)

WORDS = ["[CLS]", "[PAD]", "[UNK]", "[SEP]", "does", "medicare", "cover", "aids", "life", "?", ","]
TEXTS = ["does medicare cover aids", "life", "", "cover " * 40, "Ünknown wörds, aids?"] * 2
CLS, PAD, SEP = (WORDS.index(name) for name in ("[CLS]", "[PAD]", "[SEP]"))
SIZE: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 24}
IDS: dict[str, Any] = {"vocab_size": len(WORDS), "pad_token_id": PAD}
BERT = BertConfig(**IDS, **SIZE, max_position_embeddings=32)
FAMILIES: dict[str, PretrainedConfig] = {
    "bert": BERT,
    "bert-left": BERT,
    "distilbert": DistilBertConfig(**IDS, dim=16, n_layers=3, n_heads=4, hidden_dim=24, max_position_embeddings=32),
    "roberta": RobertaConfig(**IDS, **SIZE, max_position_embeddings=34, type_vocab_size=1),
    "xlm-roberta": XLMRobertaConfig(**IDS, **SIZE, max_position_embeddings=34, type_vocab_size=1),
    "mpnet": MPNetConfig(**IDS, **SIZE, max_position_embeddings=34),
    "albert": AlbertConfig(**IDS, **SIZE, embedding_size=8, max_position_embeddings=32),
    "electra": ElectraConfig(**IDS, **SIZE, embedding_size=8, max_position_embeddings=32),
    "deberta": DebertaV2Config(
        **IDS, **SIZE, relative_attention=True, pos_att_type=["p2c", "c2p"], type_vocab_size=0, pooler_hidden_size=16
    ),
    "modernbert": ModernBertConfig(**IDS, **SIZE, cls_token_id=CLS, sep_token_id=SEP, local_attention=8),
    "t5": T5Config(**IDS, d_model=16, d_kv=4, d_ff=24, num_layers=3, num_heads=4, eos_token_id=SEP),
}
READ_PADDING: dict[str, PretrainedConfig] = {
    "convbert": ConvBertConfig(**IDS, **SIZE, embedding_size=8, max_position_embeddings=32),
    "fnet": FNetConfig(**IDS, hidden_size=16, num_hidden_layers=3, intermediate_size=24, max_position_embeddings=32),
}
NARROW_HEADS: dict[str, PretrainedConfig] = {  # of 4 columns, which FlashAttention cannot read
    "narrow heads": BertConfig(**IDS, **SIZE | {"num_attention_heads": 4}, max_position_embeddings=32),
}


def save_family(folder: Path, kind: str, seed: int = 0) -> Path:
    """Save a model of a few layers with weights so large that every part matters, and its tokenizer."""
    torch.manual_seed(seed)
    model = AutoModel.from_config((FAMILIES | READ_PADDING | NARROW_HEADS)[kind])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    tokenizer(kind).save_pretrained(folder)
    return folder


def tokenizer(kind: str) -> PreTrainedTokenizerFast:
    """It puts [CLS] and [SEP] around a text; T5's has no [CLS]."""
    words = Tokenizer(WordPiece({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    words.normalizer, words.pre_tokenizer = BertNormalizer(), BertPreTokenizer()
    begin = "" if kind == "t5" else "[CLS] "
    words.post_processor = TemplateProcessing(
        single=f"{begin}$A [SEP]",
        pair=f"{begin}$A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", CLS), ("[SEP]", SEP)],
    )
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "eos_token": "[SEP]"}
    special |= {} if kind == "t5" else {"cls_token": "[CLS]", "sep_token": "[SEP]"}
    side = "left" if kind == "bert-left" else "right"
    return PreTrainedTokenizerFast(tokenizer_object=words, padding_side=side, truncation_side=side, **special)
