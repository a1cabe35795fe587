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
from transformers import AutoConfig, AutoModel, PreTrainedTokenizerFast

WORDS = ["[CLS]", "[PAD]", "[UNK]", "[SEP]", "does", "medicare", "cover", "aids", "life", "?", ","]
TEXTS = ["does medicare cover aids", "life", "", "cover " * 40, "Ünknown wörds, aids?"] * 2
CLS, PAD, SEP = (WORDS.index(name) for name in ("[CLS]", "[PAD]", "[SEP]"))
IDS: dict[str, Any] = {"vocab_size": len(WORDS), "pad_token_id": PAD}
SIZE = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 24}
SHORT, LATE = SIZE | {"max_position_embeddings": 32}, SIZE | {"max_position_embeddings": 34}  # whose first 2 are none's
FAMILIES: dict[str, dict[str, Any]] = {
    "bert": SHORT,
    "bert-left": SHORT,
    "distilbert": {"dim": 16, "n_layers": 3, "n_heads": 4, "hidden_dim": 24, "max_position_embeddings": 32},
    "roberta": LATE | {"type_vocab_size": 1},
    "xlm-roberta": LATE | {"type_vocab_size": 1},
    "mpnet": LATE,
    "albert": SHORT | {"embedding_size": 8},
    "electra": SHORT | {"embedding_size": 8},
    "deberta-v2": SIZE | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "type_vocab_size": 0},
    "modernbert": SIZE | {"cls_token_id": CLS, "sep_token_id": SEP, "local_attention": 8},
    "t5": {"d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 3, "num_heads": 4, "eos_token_id": SEP},
}
READ_PADDING = {"convbert": SHORT | {"embedding_size": 8}, "fnet": SHORT}
NARROW_HEADS = {"bert-narrow": SHORT | {"num_attention_heads": 4}}  # of 4 columns, which FlashAttention cannot read


def save_family(folder: Path, kind: str, seed: int = 0) -> Path:
    """Save a model of a few layers with weights so large that every part matters, and its tokenizer."""
    torch.manual_seed(seed)
    changes = (FAMILIES | READ_PADDING | NARROW_HEADS)[kind]
    family = kind.removesuffix("-left").removesuffix("-narrow")
    model = AutoModel.from_config(AutoConfig.for_model(family, **IDS, **changes))
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
