"""Generated queries: each token against whole forward passes, the table of them; and which are kept."""

import shutil
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
import torch

from gnn_encoder.base.tables import QUERIES
from gnn_encoder.dual_cross import generation
from gnn_encoder.dual_cross.generation import choose_queries, draw, forbidden, generate_queries, write_queries
from gnn_encoder.dual_cross.generator import QueryGenerator
from gnn_encoder.text.batches import single_batch
from gnn_encoder.text.corpus import embed_queries
from gnn_encoder.text.pretrained import load_tokenizer
from gnn_encoder.text.tokens import TextTokens, open_tokens

from ..texts import text
from ..texts import write_queries as queries_table
from ..train.conftest import tiny_encoder

LENGTH = 12  # tokens of a passage
GENERATED = 4


@pytest.fixture
def passages(tables: Path, model: QueryGenerator) -> TextTokens:
    """12 of 3 to 14 words."""
    return open_tokens(tables / "passages.parquet", model.tokenizer, tables, 64)


@torch.inference_mode()
def best(model: QueryGenerator, passages: TextTokens, row: int, query: list[int]) -> int:
    """The most likely token to follow a query so far, by one pass over the whole of it and of the passage."""
    batch = single_batch(passages, np.array([row]), model.template, LENGTH)
    inputs = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
    so_far = torch.tensor([[model.model.config.decoder_start_token_id, *query]])
    logits = model.model(**inputs, decoder_input_ids=so_far, use_cache=False).logits[0, -1]
    never, not_first = forbidden(model.tokenizer, model.end, len(logits))
    logits[[*never, *([] if query else not_first)]] = -torch.inf
    return int(logits.argmax())


def test_of_one_token_it_is_the_best(model: QueryGenerator, passages: TextTokens) -> None:
    """Then nothing is drawn, and all views of a passage are alike."""
    batch = single_batch(passages, np.arange(12), model.template, LENGTH)
    banned = forbidden(model.tokenizer, model.end, model.model.get_output_embeddings().out_features)
    found = write_queries(model, batch, banned, views=3, tokens=10, top_k=1).view(12, 3, 10)
    assert (found == found[:, :1]).all()
    for row, tokens in enumerate(found[:, 0].tolist()):
        ends = tokens.index(model.end) + 1 if model.end in tokens else len(tokens)
        assert tokens[ends:] == [model.template.pad] * (len(tokens) - ends)
        assert tokens[:ends] == [best(model, passages, row, tokens[:place]) for place in range(ends)]
    assert len(set(map(tuple, found[:, 0].tolist()))) > 1


def test_a_token_is_drawn_by_the_softmax_of_the_most_likely() -> None:
    """Of 20,000 rows; one token of six is forbidden, and one less likely than the four."""
    logits = torch.tensor([2.0, -1.0, 1.0, -torch.inf, 0.0, -2.0])
    torch.manual_seed(3)
    shares = draw(logits.repeat(20_000, 1), 4).bincount(minlength=6) / 20_000
    logits[5] = -torch.inf
    torch.testing.assert_close(shares, logits.softmax(dim=0), atol=0.015, rtol=0)


def test_forbidden_tokens(tiny_model: Path, t5_folder: Path) -> None:
    tokenizer = load_tokenizer(str(tiny_model))
    never, not_first = forbidden(tokenizer, tokenizer.sep_token_id, len(tokenizer) + 2)
    special = {tokenizer.convert_tokens_to_ids(token) for token in ("[PAD]", "[UNK]", "[CLS]", "[MASK]")}
    assert set(never) == special | {len(tokenizer), len(tokenizer) + 1}
    assert not_first == [tokenizer.sep_token_id]
    tokenizer = load_tokenizer(str(t5_folder))
    never, not_first = forbidden(tokenizer, 1, 32)
    assert set(never) == {0, 2, *range(len(tokenizer), 32)}
    assert not_first == [1, 4]  # the end and the token that is a blank


def test_the_table_of_generated_queries(
    model: QueryGenerator, passages: TextTokens, tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row r is view r % 3 of passage r // 3; the seed decides, whichever windows are there. Kills: test_kill.py."""
    monkeypatch.setattr(generation, "WINDOW", 5)
    target, parts = tmp_path / "queries.parquet", tmp_path / "parts"
    section = {"generated": 3, "generator": Mock(query_length=12)}
    params = Mock(seed=11, encoder=Mock(passage_length=LENGTH, batch_tokens=50), dual_cross=Mock(**section))
    generate = partial(generate_queries, model, tables / "passages.parquet", passages, target, parts, params)
    generate()
    table = pq.read_table(target)
    assert table.schema.equals(QUERIES) and table.column("answers").to_pylist() == [[]] * 36
    assert table.column("qid").to_pylist() == [f"{row // 3}-{row % 3}" for row in range(36)]
    texts = table.column("text").to_pylist()
    assert all(texts) and len(set(texts)) > 20 and all(text == " ".join(text.split()) for text in texts)
    (parts / "part-000002.parquet").unlink()
    generate()
    assert pq.read_table(target).equals(table)
    shutil.rmtree(parts)
    params.seed = 12
    generate()
    assert pq.read_table(target).column("text").to_pylist() != texts


@pytest.mark.parametrize("keep", [2, 4])
def test_the_table_of_kept_queries(
    tiny_model: Path, tmp_path: Path, keep: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four queries for each of 12 passages, of which the second repeats the first."""
    monkeypatch.setattr(generation, "WINDOW", 5)
    encoder, embeddings = tiny_encoder(tiny_model).for_inference(), np.random.default_rng(2).normal(size=(12, 32))
    first = [i - (i % 4 == 1) for i in range(12 * GENERATED)]
    drafts = queries_table(tmp_path / "drafts.parquet", [text(40 + i, 1 + i * 5 % 9) for i in first])
    tokens, target = open_tokens(drafts, encoder.tokenizer, tmp_path, 32), tmp_path / "queries.parquet"
    params = Mock(dual_cross=Mock(generated=GENERATED, views=keep), encoder=Mock(batch_tokens=64))
    choose_queries(encoder, drafts, tokens, embeddings, target, tmp_path / "parts", params)
    drawn, vectors = pl.read_parquet(drafts), embed_queries(encoder, tokens, 64).reshape(12, GENERATED, 32)
    expected = []
    for passage, embedding in enumerate(embeddings):
        cosine = [v @ embedding / np.linalg.norm(v) / np.linalg.norm(embedding) for v in vectors[passage]]
        order = [*sorted([0, 2, 3], key=lambda place, cosine=cosine: -cosine[place]), 1]  # 1 is a repetition
        expected += [passage * GENERATED + place for place in order[:keep]]
    assert pl.read_parquet(target).equals(drawn[expected]) and pq.read_schema(target).equals(QUERIES)
    assert len({row for row in expected if row % 4 == 0}) < 12 or keep == 4
