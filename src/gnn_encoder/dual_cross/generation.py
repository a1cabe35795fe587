"""Generated queries: written token by token for every passage, and the nearest to their passage kept (Eq. 9).

Tokens are drawn by top-k sampling (Fan et al. 2018). Token t of view v of passage i is drawn with one uniform number
u(seed, i, v, t), which is a hash of these four. The queries are therefore the same for any batches, for any number of
devices, and after a resumed run. Tables are made in windows of passages, which all devices share and which an
interrupted run need not make again.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerBase
from transformers.cache_utils import DynamicCache, EncoderDecoderCache

from gnn_encoder.base import distributed
from gnn_encoder.base.matrix import Numbers, gather_rows, resume_windows
from gnn_encoder.base.tables import QUERIES, write_part, write_table
from gnn_encoder.dual_cross.generator import QueryGenerator
from gnn_encoder.text.batches import Batch, Inputs, prefetch, prepare_rows
from gnn_encoder.text.corpus import embed_queries
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.text.tokens import TextTokens

WINDOW = 2_048  # passages that are sorted and processed together; a kill loses one window at most
# Batches that are encoded one by one but decoded together on a CPU. A step of the decoder computes one token per query,
# and the queries of a single batch are too few to keep its cores busy.
TOGETHER = 4
# Finished queries are removed from a batch once its share of unfinished queries falls below this. Not at every step,
# since each removal copies the caches.
LIVE_SHARE = 0.75
TOP_K = 10  # most likely tokens that one is drawn from
# splitmix64's constants, as signed 64-bit numbers
GOLDEN, FIRST, SECOND = -0x61C8_8646_80B5_83EB, -0x40A7_B892_E31B_1A47, -0x6B2F_B644_ECCE_EE15
Windows = Callable[[Numbers], Iterator[tuple[int, pa.Table]]]  # the tables of some windows, with their numbers


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How queries are drawn. `never` and `not_first` are token ids, on the model's device."""

    seed: int
    views: int
    top_k: int
    length: int  # most tokens of a query, without special ones
    never: Tensor  # tokens that no query may hold
    not_first: Tensor  # further tokens that no query may begin with, since they would leave it empty


def sampling(model: QueryGenerator, *, seed: int, views: int, query_length: int, top_k: int = TOP_K) -> Sampling:
    """Settings for drawing queries of at most `query_length` tokens, special ones included."""
    vocabulary = model.model.get_output_embeddings().out_features
    never, not_first = (ids.to(model.device) for ids in forbidden(model.tokenizer, model.end, vocabulary))
    length = query_length - len(model.template.single_prefix) - len(model.template.single_suffix)
    return Sampling(seed=seed, views=views, top_k=top_k, length=length, never=never, not_first=not_first)


@torch.inference_mode()
def write_queries(model: QueryGenerator, batch: Batch, passages: Tensor, how: Sampling, *, batch_tokens: int) -> Tensor:
    """Draw q_i^1 ... q_i^views ~ P_QG(q|d_i) for each passage of a batch (Eq. 9): token ids, padded.

    All views of a passage share the logits of the first token and the cross-attention's keys and values. The passages'
    rows in the corpus decide what is drawn, together with the seed. At most `batch_tokens` padded tokens of passages
    are encoded at a time; all are decoded together.

    *Shape:* passages (n,) -> (n, views, length).
    """
    passages, mask = passages.to(model.device), batch.attention_mask.to(model.device)
    states = model.encode(batch, batch_tokens)
    live = torch.arange(len(states) * how.views, device=model.device)  # the queries in the caches, as rows of `result`
    result = torch.full((len(live), how.length), model.template.pad, device=model.device)
    done, cache = torch.zeros_like(live, dtype=torch.bool), EncoderDecoderCache(DynamicCache(), DynamicCache())
    start = torch.full((len(states), 1), model.start, device=model.device)
    logits = model.next_logits(states, mask, start, cache).repeat_interleave(how.views, dim=0)
    logits[:, how.not_first] = -torch.inf
    cache.batch_repeat_interleave(how.views)
    for position in range(how.length):
        logits[:, how.never] = -torch.inf
        numbers = uniforms(how.seed, passages[live // how.views], live % how.views, position)
        tokens = sample_top_k(logits, how.top_k, numbers)
        done |= tokens == model.end
        going = (~done).nonzero().squeeze(1)
        result[live[going], position] = tokens[going]
        if len(going) == 0 or position + 1 == how.length:
            break
        if len(going) < LIVE_SHARE * len(live):
            live, tokens, done = live[going], tokens[going], done[going]
            cache.batch_select_indices(going)
        # The model reads only the shape of the states: the cache holds the keys and values computed from them.
        same = states[:1].expand(len(live), -1, -1)
        logits = model.next_logits(same, mask[live // how.views], tokens.unsqueeze(1), cache)
    return result.view(len(states), how.views, how.length)


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


def generate_queries(
    model: QueryGenerator,
    tokens: TextTokens,
    passages: Path,
    target: Path,
    work: Path,
    how: Sampling,
    *,
    passage_length: int,
    batch_tokens: int,
) -> None:
    """Write the table of generated queries. Row r is view r % views of passage r // views, with qid "{pid}-{view}"."""
    inputs = Inputs.singles(tokens, model.template, passage_length)
    together = batch_tokens * (1 if torch.cuda.is_available() else TOGETHER)

    def generate(windows: Numbers) -> Iterator[tuple[int, pa.Table]]:
        read = prefetch(lambda window: prepare_rows(inputs, _rows_of(window, len(tokens)), together), windows)
        for window, prepared in read:
            rows = _rows_of(window, len(tokens))
            written = torch.empty(len(rows), how.views, how.length, dtype=torch.int64)
            for positions, batch in prepared:
                numbers = torch.from_numpy(rows[positions])
                written[positions] = write_queries(model, batch, numbers, how, batch_tokens=batch_tokens).cpu()
            pids = pl.scan_parquet(passages).select("pid").slice(int(rows[0]), len(rows)).collect()["pid"]
            qids = [f"{pid}-{view}" for pid in pids for view in range(how.views)]
            how_read = {"skip_special_tokens": True, "clean_up_tokenization_spaces": True}
            texts = [" ".join(text.split()) for text in model.tokenizer.batch_decode(written.flatten(0, 1), **how_read)]
            yield window, pa.table([qids, texts, [[]] * len(texts)], schema=QUERIES)

    _write_windows(target, work, len(tokens), generate, "generate queries")


def choose_queries(
    encoder: DualEncoder,
    drafts: Path,
    tokens: TextTokens,
    embeddings: NDArray[np.floating],
    target: Path,
    work: Path,
    *,
    generated: int,
    keep: int,
    batch_tokens: int,
) -> None:
    """Write the table of kept queries: row r is view r % keep of passage r // keep, the nearest query being view 0.

    The table `drafts` has `generated` ones, with these `tokens`, for each passage, in the passages' order. A query that
    repeats an earlier one of its passage would be the same view again, and comes after all others.

    *Shape:* the passages' embeddings, by `encoder`, (passages, d).
    """
    passages = len(embeddings)
    assert len(tokens) == passages * generated

    def choose(windows: Numbers) -> Iterator[tuple[int, pa.Table]]:
        for window in windows:
            part = _rows_of(window, passages)
            rows = np.arange(part[0] * generated, (part[-1] + 1) * generated)
            texts = pl.scan_parquet(drafts).slice(int(rows[0]), len(rows)).collect()
            asked = embed_queries(encoder, tokens, batch_tokens, rows).reshape(len(part), generated, -1)
            cosines = cosines_to(gather_rows(embeddings, part), asked)
            kept = np.lexsort((-cosines, _repeated(texts["text"], generated)), axis=-1)[:, :keep]
            yield window, texts[(kept + generated * np.arange(len(part))[:, None]).reshape(-1)].to_arrow()

    _write_windows(target, work, passages, choose, "choose queries")


def cosines_to(passages: NDArray[np.floating], queries: NDArray[np.float32]) -> NDArray[np.float32]:
    """Cosine of passages' embeddings with those of their queries. *Shape:* (n, d), (n, queries, d) -> (n, queries)."""
    wide = passages.astype(np.float32)
    lengths = np.linalg.norm(wide, axis=-1)[:, None] * np.linalg.norm(queries, axis=-1)
    found: NDArray[np.float32] = np.einsum("nd,nqd->nq", wide, queries) / np.maximum(lengths, np.finfo(np.float32).tiny)
    return found


def _repeated(texts: pl.Series, generated: int) -> NDArray[np.bool_]:
    """Which texts repeat an earlier one of the same passage. *Shape:* (n * generated,) -> (n, generated)."""
    passage = np.arange(len(texts)) // generated
    first = pl.DataFrame({"passage": passage, "text": texts}).select(pl.struct("passage", "text").is_first_distinct())
    return ~first.to_series().to_numpy().reshape(-1, generated)


def _write_windows(target: Path, work: Path, passages: int, make: Windows, label: str) -> None:
    """Write a QUERIES table window by window; those that an interrupted run left in `work` are not made again."""

    def write(path: Path, number: int, table: pa.Table) -> None:
        write_part(path, QUERIES, [table])

    name = "part-{:06d}.parquet"
    files = resume_windows(work, name, passages, WINDOW, make, write, label=label, unit="passages")
    write_table(target, QUERIES, map(pq.read_table, files))
    distributed.barrier()


def _rows_of(window: int, passages: int) -> NDArray[np.int64]:
    """The passages of a window."""
    return np.arange(window * WINDOW, min(passages, (window + 1) * WINDOW))
