"""Generated queries: drawn as by plain Python from whole forward passes, whatever the batch; and which are kept."""

from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
import torch

from gnn_encoder.base.tables import QUERIES
from gnn_encoder.dual_cross import generation
from gnn_encoder.dual_cross.generation import (
    Sampling,
    choose_queries,
    forbidden,
    generate_queries,
    sample_top_k,
    sampling,
    uniforms,
    write_queries,
)
from gnn_encoder.dual_cross.generator import QueryGenerator
from gnn_encoder.text.batches import single_batch
from gnn_encoder.text.corpus import embed_queries
from gnn_encoder.text.pretrained import Source, load_tokenizer
from gnn_encoder.text.tokens import TextTokens, open_tokens

from ..texts import text, write_passages
from ..texts import write_queries as queries_table
from ..train.conftest import tiny_encoder

LENGTH = 24  # tokens of a passage
GENERATED = 4


def splitmix(state: int) -> int:
    """The published generator's step: Steele, Lea and Flood 2014."""
    state = (state + 0x9E3779B97F4A7C15) % 2**64
    state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    state = (state ^ state >> 27) * 0x94D049BB133111EB % 2**64
    return state ^ state >> 31


def uniform(seed: int, passage: int, view: int, position: int) -> float:
    state = seed
    for number in (passage, view, position):
        state = splitmix(state) ^ number
    return (splitmix(state) >> 11) / 2**53


def test_uniforms_equal_plain_integers() -> None:
    passages, views = torch.tensor([0, 1, 8_841_822, 2**31]), torch.tensor([0, 2, 9, 126])
    for seed, position in ((0, 0), (13, 5), (2**32 - 1, 22)):
        found = uniforms(seed, passages, views, position)
        places = zip(passages.tolist(), views.tolist(), strict=True)
        assert found.tolist() == [uniform(seed, passage, view, position) for passage, view in places]


def test_token_where_the_cdf_passes() -> None:
    """Of 0.2, 0.4, 0.1 ... the three best are 0.4, 0.2, 0.2 (token 3, 1, 4): 1/2, 1/4, 1/4."""
    logits = torch.tensor([[0.05, 0.2, 0.05, 0.4, 0.2 - 1e-9, 0.1]], dtype=torch.float64).log().expand(6, -1)
    numbers = torch.tensor([0.0, 0.49, 0.51, 0.74, 0.76, 1 - 2**-53], dtype=torch.float64)
    assert sample_top_k(logits, 3, numbers).tolist() == [3, 3, 1, 1, 4, 4]


@pytest.fixture
def passages_table(tmp_path: Path) -> Path:
    """23 passages of 1 to 36 words."""
    return write_passages(tmp_path / "passages.parquet", [""] * 23, [text(i, 1 + (i * 11) % 37) for i in range(23)])


@pytest.fixture
def passages(passages_table: Path, model: QueryGenerator) -> TextTokens:
    return open_tokens(passages_table, model.tokenizer, passages_table.parent, 64)


def settings(model: QueryGenerator, views: int = 3) -> Sampling:
    return sampling(model, seed=11, views=views, top_k=6, query_length=12)


def written(model: QueryGenerator, passages: TextTokens, rows: np.ndarray, how: Sampling) -> torch.Tensor:
    batch = single_batch(passages, rows, model.template, LENGTH)
    return write_queries(model, batch, torch.from_numpy(rows), how, batch_tokens=200)


@torch.inference_mode()
def slow(model: QueryGenerator, passages: TextTokens, row: int, view: int, how: Sampling) -> list[int]:
    """Plain Python: the whole passage and the whole query so far, again for every token."""
    batch = single_batch(passages, np.array([row]), model.template, LENGTH)
    tokens = [model.start]
    for position in range(how.length):
        inputs = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
        logits = model.model(**inputs, decoder_input_ids=torch.tensor([tokens]), use_cache=False).logits[0, -1].tolist()
        barred = set(how.never.tolist()) | (set(how.not_first.tolist()) if position == 0 else set())
        allowed = [token for token in range(len(logits)) if token not in barred]
        best = sorted(allowed, key=lambda token: -logits[token])[: how.top_k]
        weights = [np.exp(logits[token] - logits[best[0]]) for token in best]
        left = uniform(how.seed, row, view, position) * sum(weights)
        token = best[[left >= sum(weights[: i + 1]) for i in range(len(best))].index(False)]
        if token == model.end:
            break
        tokens.append(token)
    return tokens[1:]


def test_equals_whole_forward_passes(model: QueryGenerator, passages: TextTokens) -> None:
    how = settings(model)
    found, lengths = written(model, passages, np.arange(23), how), set()
    assert found.shape == (23, 3, how.length)
    for row in range(0, 23, 2):
        for view in range(3):
            expected = slow(model, passages, row, view, how)
            assert found[row, view].tolist() == expected + [model.template.pad] * (how.length - len(expected))
            lengths.add(len(expected))
    assert len(lengths) > 3  # queries of many lengths: some left their batch early
    texts = model.tokenizer.batch_decode(found.flatten(0, 1), skip_special_tokens=True)
    assert all(text.strip() for text in texts) and len(set(texts)) > 40


@pytest.mark.parametrize("live_share", [0.0, 1.0])
def test_independent_of_batch_and_order(
    model: QueryGenerator, passages: TextTokens, monkeypatch: pytest.MonkeyPatch, live_share: float
) -> None:
    how = settings(model)
    whole = written(model, passages, np.arange(23), how)
    monkeypatch.setattr(generation, "LIVE_SHARE", live_share)
    assert torch.equal(written(model, passages, np.arange(22, -1, -1), how).flip(0), whole)
    for rows in np.array_split(np.random.default_rng(0).permutation(23), 7):
        assert torch.equal(written(model, passages, rows, how), whole[rows])


def test_forbidden_tokens(tiny_model: Path, t5_folder: Path) -> None:
    tokenizer = load_tokenizer(Source(str(tiny_model)))
    never, not_first = forbidden(tokenizer, tokenizer.sep_token_id, len(tokenizer) + 2)
    special = {tokenizer.convert_tokens_to_ids(token) for token in ("[PAD]", "[UNK]", "[CLS]", "[MASK]")}
    assert set(never.tolist()) == special | {len(tokenizer), len(tokenizer) + 1}
    assert not_first.tolist() == [tokenizer.sep_token_id]
    tokenizer = load_tokenizer(Source(str(t5_folder)))
    never, not_first = forbidden(tokenizer, 1, 32)
    assert set(never.tolist()) == {0, 2, *range(len(tokenizer), 32)}
    assert not_first.tolist() == [1, 4]  # the end and the token that is a blank


def test_the_table_of_generated_queries(
    model: QueryGenerator, passages: TextTokens, passages_table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row r is view r % 3 of passage r // 3. Kills: tests/faults/test_kill.py."""
    monkeypatch.setattr(generation, "WINDOW", 5)
    how, target = settings(model), tmp_path / "queries.parquet"
    sizes = {"passage_length": LENGTH, "batch_tokens": 50}
    generate_queries(model, passages, passages_table, target, tmp_path / "parts", how, **sizes)
    table = pq.read_table(target)
    assert table.schema.equals(QUERIES) and table.column("answers").to_pylist() == [[]] * 69
    assert table.column("qid").to_pylist() == [f"{row // 3}-{row % 3}" for row in range(69)]
    texts = table.column("text").to_pylist()
    tokens = written(model, passages, np.arange(23), how).flatten(0, 1)
    decoded = (model.tokenizer.decode(query, skip_special_tokens=True) for query in tokens)
    assert texts == [" ".join(one.split()) for one in decoded]
    assert all(texts) and len(set(texts)) > 40


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
    sizes = {"generated": GENERATED, "keep": keep, "batch_tokens": 64}
    choose_queries(encoder, drafts, tokens, embeddings, target, tmp_path / "parts", **sizes)
    drawn, vectors = pl.read_parquet(drafts), embed_queries(encoder, tokens, 64).reshape(12, GENERATED, 32)
    expected = []
    for passage, embedding in enumerate(embeddings):
        cosine = [v @ embedding / np.linalg.norm(v) / np.linalg.norm(embedding) for v in vectors[passage]]
        order = [*sorted([0, 2, 3], key=lambda place, cosine=cosine: -cosine[place]), 1]  # 1 is a repetition
        expected += [passage * GENERATED + place for place in order[:keep]]
    assert pl.read_parquet(target).equals(drawn[expected]) and pq.read_schema(target).equals(QUERIES)
    assert len({row for row in expected if row % 4 == 0}) < 12 or keep == 4
