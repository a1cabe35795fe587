"""Generating queries token by token. Each passage is encoded once, and all its views are decoded together.

Tokens are drawn by top-k sampling (Fan et al. 2018). Token t of view v of passage i is drawn with one uniform number
u(seed, i, v, t), which is a hash of these four. The queries are therefore the same for any batches, for any number of
devices, and after a resumed run.
"""

from dataclasses import dataclass, fields

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase
from transformers.cache_utils import EncoderDecoderCache

from gnn_encoder.dual_cross.model import QueryGenerator
from gnn_encoder.text.batches import Batch

# Finished queries are removed from a batch once its share of unfinished queries falls below this. Not at every step,
# since each removal copies the caches.
LIVE_SHARE = 0.75
TOP_K = 10  # most likely tokens that one is drawn from
GOLDEN = -0x61C8_8646_80B5_83EB  # splitmix64's constants, as signed 64-bit numbers
FIRST = -0x40A7_B892_E31B_1A47
SECOND = -0x6B2F_B644_ECCE_EE15


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How queries are drawn. `never` and `not_first` are token ids, on the model's device."""

    seed: int
    views: int
    top_k: int
    length: int  # most tokens of a query, without special ones
    never: Tensor  # tokens that no query may hold
    not_first: Tensor  # further tokens that no query may begin with, since they would leave it empty


@dataclass(kw_only=True)
class _Live:
    """The queries of a batch that are being generated, one row each. *Shape:* (n,), except for `mask`."""

    passages: Tensor  # rows of the corpus
    views: Tensor  # number of the view
    places: Tensor  # rows of the result
    tokens: Tensor  # the latest token
    done: Tensor  # True for finished queries that have not been removed yet
    mask: Tensor  # of the passage's tokens, (n, passage tokens)

    def take(self, rows: Tensor) -> "_Live":
        return _Live(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})


@torch.inference_mode()
def write_queries(model: QueryGenerator, batch: Batch, passages: Tensor, how: Sampling, *, batch_tokens: int) -> Tensor:
    """Draw q_i^1 ... q_i^views ~ P_QG(q|d_i) for each passage of a batch (Eq. 9).

    All views of a passage share the logits of the first token and the cross-attention's keys and values.

    Args:
        batch: the passages.
        passages: their rows in the corpus, which decide what is drawn, together with the seed. *Shape:* (n,).
        batch_tokens: most padded tokens of passages that are encoded at a time; all are decoded together.

    Returns:
        Token ids without special ones, filled up with the padding token. *Shape:* (n, views, length).
    """
    passages, mask = passages.to(model.device), batch.attention_mask.to(model.device)
    states = model.encode(batch, batch_tokens)
    start = torch.full((len(states), 1), model.start, device=model.device)
    cache = model.empty_cache()
    first = model.next_logits(states, mask, start, cache)
    first[:, how.not_first] = -torch.inf
    cache.batch_repeat_interleave(how.views)
    each = torch.arange(len(states), device=model.device).repeat_interleave(how.views)
    live = _Live(
        passages=passages[each],
        views=torch.arange(how.views, device=model.device).repeat(len(states)),
        places=torch.arange(len(each), device=model.device),
        tokens=start[each, 0],
        done=torch.zeros(len(each), dtype=torch.bool, device=model.device),
        mask=mask[each],
    )
    result = torch.full((len(each), how.length), model.template.pad, device=model.device)
    live = _write(first[each], 0, live, result, how, model.end, cache)
    for position in range(1, how.length):
        if len(live.tokens) == 0:
            break
        # The model reads only the shape of the states: the cache holds the keys and values computed from them.
        same = states[:1].expand(len(live.tokens), -1, -1)
        logits = model.next_logits(same, live.mask, live.tokens.unsqueeze(1), cache)
        live = _write(logits, position, live, result, how, model.end, cache)
    return result.view(len(states), how.views, how.length)


def _write(
    logits: Tensor, position: int, live: _Live, result: Tensor, how: Sampling, end: int, cache: EncoderDecoderCache
) -> _Live:
    """Draw token `position` of each query and write it to `result`; remove finished queries (see LIVE_SHARE)."""
    logits[:, how.never] = -torch.inf
    drawn = sample_top_k(logits, how.top_k, uniforms(how.seed, live.passages, live.views, position))
    live.tokens, live.done = drawn, live.done | (drawn == end)
    going = (~live.done).nonzero().squeeze(1)
    result[live.places[going], position] = drawn[going]
    if len(going) >= LIVE_SHARE * len(drawn):
        return live
    cache.batch_select_indices(going)
    return live.take(going)


def forbidden(tokenizer: PreTrainedTokenizerBase, end: int, vocabulary: int) -> tuple[Tensor, Tensor]:
    """Tokens that no query may hold, and further tokens that it may not begin with (`Sampling.never`, `.not_first`).

    The first are all special tokens except the one that ends a query, tokens such as `[unused1]`, and ids without a
    token (the embedding table is often longer than the vocabulary). The second are the token that ends a query, and
    tokens that decode to white space.
    """
    texts = tokenizer.batch_decode([[token] for token in range(len(tokenizer))])
    unused = [token for token, text in enumerate(texts) if text.strip().startswith("[unused")]
    special = set(tokenizer.all_special_ids) - {end}
    never = sorted(special.union(unused, range(len(tokenizer), vocabulary)))
    blank = [token for token, text in enumerate(texts) if not text.strip()]
    return torch.tensor(never), torch.tensor(sorted({end, *blank}))


def uniforms(seed: int, passages: Tensor, views: Tensor, position: int) -> Tensor:
    """u(seed, i, v, t) in [0, 1): one round of splitmix64 for each of the four. *Shape:* (n,), (n,) -> (n,) float64."""
    state = torch.full_like(passages, seed, dtype=torch.int64)
    for number in (passages, views, torch.full_like(views, position)):
        state = _mix(state + GOLDEN) ^ number
    return _shift(_mix(state + GOLDEN), 11).double() * 2.0**-53


def sample_top_k(logits: Tensor, top_k: int, uniform: Tensor) -> Tensor:
    """Draw one token per row from the `top_k` most likely tokens, with their probabilities renormalised.

    With the tokens ordered from the most likely one, it is the first whose cumulative probability exceeds `uniform`.

    *Shape:* logits (n, vocabulary), uniform (n,) -> (n,).
    """
    values, tokens = logits.topk(min(top_k, logits.shape[1]), dim=1)
    cumulative = torch.softmax(values.double(), dim=1).cumsum(dim=1)
    # `uniform` is scaled by the sum as computed, which need not be exactly 1. So no number in [0, 1) falls behind the
    # last token, and none selects a token of probability 0, since that adds nothing to the sum.
    passed = cumulative <= uniform.unsqueeze(1) * cumulative[:, -1:]
    return tokens.gather(1, passed.sum(dim=1, keepdim=True)).squeeze(1)


def _mix(state: Tensor) -> Tensor:
    state = (state ^ _shift(state, 30)) * FIRST
    state = (state ^ _shift(state, 27)) * SECOND
    return state ^ _shift(state, 31)


def _shift(state: Tensor, bits: int) -> Tensor:
    """Logical shift to the right (that of torch is arithmetic: it repeats the sign bit)."""
    return (state >> bits) & ((1 << (64 - bits)) - 1)
