"""Cached, shrinking, batched decoding against one query at a time with whole forward passes."""

from pathlib import Path

import numpy as np
import pytest
import torch

from gnn_encoder.dual_cross import generation as decoding
from gnn_encoder.dual_cross.generation import Sampling, forbidden, sampling, write_queries
from gnn_encoder.dual_cross.generator import QueryGenerator
from gnn_encoder.text.pretrained import Source, load_tokenizer
from gnn_encoder.text.tokens import TextTokens, single_batch

from .test_sampling import uniform

LENGTH = 24  # tokens of a passage


def settings(model: QueryGenerator, views: int = 3, seed: int = 11) -> Sampling:
    return sampling(model, seed=seed, views=views, top_k=6, query_length=12)


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
        passed = [left >= sum(weights[: i + 1]) for i in range(len(best))]
        token = best[passed.index(False)]
        if token == model.end:
            break
        tokens.append(token)
    return tokens[1:]


def test_equals_whole_forward_passes(model: QueryGenerator, passages: TextTokens) -> None:
    how = settings(model)
    found = written(model, passages, np.arange(23), how)
    assert found.shape == (23, 3, how.length)
    lengths = set()
    for row in range(0, 23, 2):
        for view in range(3):
            expected = slow(model, passages, row, view, how)
            assert found[row, view].tolist() == expected + [model.template.pad] * (how.length - len(expected))
            lengths.add(len(expected))
    assert len(lengths) > 3  # queries of many lengths: some left their batch early
    assert len({tuple(tokens) for tokens in found.flatten(0, 1).tolist()}) > 40


@pytest.mark.parametrize("live_share", [0.0, 1.0])
def test_independent_of_batch_and_order(
    model: QueryGenerator, passages: TextTokens, monkeypatch: pytest.MonkeyPatch, live_share: float
) -> None:
    how = settings(model)
    whole = written(model, passages, np.arange(23), how)
    monkeypatch.setattr(decoding, "LIVE_SHARE", live_share)
    backwards = written(model, passages, np.arange(22, -1, -1), how)
    assert torch.equal(backwards.flip(0), whole)
    for rows in np.array_split(np.random.default_rng(0).permutation(23), 7):
        assert torch.equal(written(model, passages, rows, how), whole[rows])


def test_no_query_is_empty_and_none_holds_a_special_token(model: QueryGenerator, passages: TextTokens) -> None:
    how = settings(model, views=8)
    found = written(model, passages, np.arange(23), how).flatten(0, 1)
    tokens = [[token for token in query if token != model.template.pad] for query in found.tolist()]
    assert all(tokens) and any(len(query) == 1 for query in tokens)
    used = {token for query in tokens for token in query}
    assert used.isdisjoint(model.tokenizer.all_special_ids) and max(used) < len(model.tokenizer)
    assert all(text.strip() for text in model.tokenizer.batch_decode(found, skip_special_tokens=True))


def test_forbidden_tokens(tiny_model: Path, t5_folder: Path) -> None:
    tokenizer = load_tokenizer(Source(str(tiny_model)))
    end = tokenizer.sep_token_id
    never, not_first = forbidden(tokenizer, end, len(tokenizer) + 2)
    special = {tokenizer.convert_tokens_to_ids(token) for token in ("[PAD]", "[UNK]", "[CLS]", "[MASK]")}
    assert set(never.tolist()) == special | {len(tokenizer), len(tokenizer) + 1}
    assert not_first.tolist() == [end]
    tokenizer = load_tokenizer(Source(str(t5_folder)))
    never, not_first = forbidden(tokenizer, 1, 32)
    assert set(never.tolist()) == {0, 2, *range(len(tokenizer), 32)}
    assert not_first.tolist() == [1, 4]  # the end and the token that is a blank
