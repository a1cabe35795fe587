"""Writing queries token by token: each passage read once, its views together, finished queries leaving."""

from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase
from transformers.cache_utils import EncoderDecoderCache

from gnn_encoder.dual_cross.generator.model import QueryGenerator
from gnn_encoder.dual_cross.generator.sampling import sample_top_k, uniforms
from gnn_encoder.models.batch import Batch

LIVE_SHARE = 0.75  # below so many unfinished ones in a batch, the finished are taken out: that copies the caches


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How queries are drawn. `never` and `not_first` are token ids."""

    seed: int
    views: int
    top_k: int
    length: int  # most tokens of a query, special ones left out
    never: Tensor  # inside a query
    not_first: Tensor  # besides: what would leave a query empty

    def to(self, device: torch.device) -> "Sampling":
        """The same on another device."""
        return replace(self, never=self.never.to(device), not_first=self.not_first.to(device))


@dataclass(kw_only=True)
class _Live:
    """Queries that are being written, a row each. *Shape:* (n,) but for `mask`."""

    passages: Tensor  # rows of the corpus
    views: Tensor
    places: Tensor  # rows of the result
    tokens: Tensor  # the latest one
    done: Tensor  # ended, and not taken out yet
    mask: Tensor  # of the passage's tokens, (n, passage tokens)

    def take(self, rows: Tensor) -> "_Live":
        return _Live(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})


@torch.inference_mode()
def write_queries(model: QueryGenerator, batch: Batch, passages: Tensor, how: Sampling, *, batch_tokens: int) -> Tensor:
    """q_i^1 ... q_i^views ~ P_QG(q|d_i) (Eq. 9).

    The first token is computed once a passage, for all its views; so are the cross-attention's keys and values.

    Args:
        passages: the batch's rows of the corpus, which with the seed decide what is drawn. *Shape:* (n,).
        batch_tokens: of passages that are read at a time; they are written about together.

    Returns:
        Token ids without special ones, filled up with the padding token. *Shape:* (n, views, length).
    """
    how = how.to(model.device)
    passages, mask = passages.to(model.device), batch.attention_mask.to(model.device)
    states = model.encode(batch, batch_tokens)
    start = torch.full((len(states), 1), model.start, device=model.device)
    cache = model.empty_cache()
    first = model.next_logits(states, mask, start, cache)
    first[:, how.not_first] = -torch.inf
    cache.batch_repeat_interleave(how.views)
    each = torch.arange(len(states), device=model.device).repeat_interleave(how.views)
    live = _begin(passages[each], mask[each], start[each, 0], how.views)
    result = torch.full((len(each), how.length), model.template.pad, device=model.device)
    live = _write(first[each], 0, live, result, how, model.end, cache)
    for position in range(1, how.length):
        if len(live.tokens) == 0:
            break
        # Of the states only the shape is read: the cache holds what cross-attention makes of them.
        same = states[:1].expand(len(live.tokens), -1, -1)
        logits = model.next_logits(same, live.mask, live.tokens.unsqueeze(1), cache)
        live = _write(logits, position, live, result, how, model.end, cache)
    return result.view(len(states), how.views, how.length)


def _begin(passages: Tensor, mask: Tensor, tokens: Tensor, views: int) -> _Live:
    places = torch.arange(len(passages), device=passages.device)
    done = torch.zeros_like(places, dtype=torch.bool)
    return _Live(passages=passages, views=places % views, places=places, tokens=tokens, done=done, mask=mask)


def _write(
    logits: Tensor, position: int, live: _Live, result: Tensor, how: Sampling, end: int, cache: EncoderDecoderCache
) -> _Live:
    """Draw token `position` of each query; queries that ended leave."""
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
    """Tokens that no query may hold, and those that it may not begin with (`Sampling.never`, `.not_first`).

    Never: special tokens but the one that ends a query, `[unused1]`, and numbers that no token has (a table of
    embeddings is often longer than the vocabulary). Not first: the end, and what decodes to white space.
    """
    texts = tokenizer.batch_decode([[token] for token in range(len(tokenizer))])
    unused = [token for token, text in enumerate(texts) if text.strip().startswith("[unused")]
    special = set(tokenizer.all_special_ids) - {end}
    never = sorted(special.union(unused, range(len(tokenizer), vocabulary)))
    blank = [token for token, text in enumerate(texts) if not text.strip()]
    return torch.tensor(never), torch.tensor(sorted({end, *blank}))
