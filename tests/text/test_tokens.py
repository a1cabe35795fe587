"""Tokens on disk give a model exactly what its own tokenizer would give it, alone, in pairs, and cut."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import AutoTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from gnn_encoder.base.errors import UserError
from gnn_encoder.text import tokens as module
from gnn_encoder.text.batches import Batch, Inputs, single_batch
from gnn_encoder.text.pretrained import load_tokenizer, uncut
from gnn_encoder.text.tokens import Template, TextTokens, open_tokens

from ..texts import text, write_passages, write_queries

TITLES = ["", "Baking bread", "", "A long title about the oven and the flour", "x", ""]
TEXTS = [text(0, 3), text(1, 5), "a", text(3, 40), "Ünïcode, 12.5% & more!", text(5, 90)]
QUERIES = [text(10, 2), text(11, 60), "why?", text(13, 9), text(14, 30), text(15, 12)]


def bert(tiny_model: Path) -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(tiny_model)


def roberta(tiny_model: Path) -> PreTrainedTokenizerBase:
    """Bytes as tokens, `<s> A </s>` and `<s> A </s></s> B </s>`, padding that is not 0, one segment."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    specials = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}
    words = Tokenizer(models.BPE(vocab=specials | {c: i + 4 for i, c in enumerate(letters)}, merges=[]))
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    words.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    names = {"bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>"}
    return PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>", pad_token="<pad>", **names)


def of_singles(tiny_model: Path) -> PreTrainedTokenizerBase:
    """`[CLS] A [SEP]`, and nothing said of pairs."""
    tokenizer = bert(tiny_model)
    at = [(token, tokenizer.convert_tokens_to_ids(token)) for token in ("[CLS]", "[SEP]")]
    single = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=at)
    tokenizer._tokenizer.post_processor = single
    return tokenizer


def passages(folder: Path, tokenizer: PreTrainedTokenizerBase, max_tokens: int) -> TextTokens:
    table = write_passages(folder / "passages.parquet", TITLES, TEXTS)
    return open_tokens(table, tokenizer, folder / "tokens", max_tokens)


def queries(folder: Path, tokenizer: PreTrainedTokenizerBase, max_tokens: int) -> TextTokens:
    table = write_queries(folder / "train.parquet", QUERIES)
    return open_tokens(table, tokenizer, folder / "tokens", max_tokens)


def assert_same(batch: Batch, expected: dict[str, torch.Tensor]) -> None:
    """Equal where the mask says there are tokens; what padding there is beyond holds nothing."""
    width = expected["input_ids"].shape[1]
    assert batch.input_ids.shape[1] >= width and batch.attention_mask[:, width:].sum() == 0
    for name, field in vars(batch).items():  # a tokenizer of one segment gives no token types
        wanted = expected.get(name, torch.zeros_like(expected["input_ids"]))
        torch.testing.assert_close(field[:, :width], wanted)


@pytest.mark.parametrize("make", [bert, roberta, of_singles])
@pytest.mark.parametrize("max_length", [5, 8, 9, 12, 13, 16, 21, 32, 64, 120, 127, 128])
def test_singles_and_pairs_equal_the_tokenizer(
    make: Callable[[Path], PreTrainedTokenizerBase], max_length: int, tiny_model: Path, tmp_path: Path
) -> None:
    tokenizer = make(tiny_model)  # not that which is called below, so that what this leaves behind cannot reach it
    uncut(tokenizer)
    template, sep = Template(tokenizer), tokenizer.sep_token
    texts = [f"{title} {sep} {text}" if title else text for title, text in zip(TITLES, TEXTS, strict=True)]
    rows = np.array([3, 0, 5, 1, 2, 4, 0])
    batch = single_batch(passages(tmp_path, tokenizer, 120), rows, template, min(max_length, 120))
    call = partial(make(tiny_model), truncation=True, max_length=max_length, padding=True, return_tensors="pt")
    if max_length <= 120:
        assert_same(batch, call([texts[row] for row in rows]))
        assert batch.input_ids.shape[1] <= max_length
        assert bool((batch.input_ids[batch.attention_mask == 0] == tokenizer.pad_token_id).all())
    if max_length >= 9:
        # Longer than any text here: of two that are both cut on disk, the longer one is not known.
        first, second = (tokens(tmp_path, tokenizer, 1000) for tokens in (queries, passages))
        a, b = (rows.reshape(-1) for rows in np.meshgrid(np.arange(6), np.arange(6)))
        batch = Inputs.pairs(first, a, second, b, template, max_length).batch()
        assert_same(batch, call([QUERIES[row] for row in a], [texts[row] for row in b]))


def test_tokens_are_made_once_whatever_was_called_before(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer, tokenise = load_tokenizer(str(tiny_model)), Mock(wraps=module._tokenise)
    monkeypatch.setattr(module, "_tokenise", tokenise)
    expected = np.array(queries(tmp_path, tokenizer, 1000).ids)
    assert np.diff(queries(tmp_path, tokenizer, 1000).offsets).max() > 50, "the tests above do cut"
    for most, times in ((1000, 1), (1001, 2)):  # read back, and made anew
        tokenizer(["a b c d e f", "a"], truncation=True, max_length=4, padding=True)
        np.testing.assert_array_equal(queries(tmp_path, tokenizer, most).ids, expected)
        assert tokenise.call_count == times
    titled = np.array(passages(tmp_path, tokenizer, 1000).ids)
    tokenizer.sep_token = tokenizer.unk_token  # it stands between title and text, and not in the tokenizer's own file
    assert not np.array_equal(passages(tmp_path, tokenizer, 1000).ids, titled)
    tokenizer.pad_token = None
    with pytest.raises(UserError, match="its tokenizer has no padding token, which batches need; set pad_token"):
        Template(tokenizer)
