"""The dev score of an encoder while it trains: RR@10 of the dev sample, by retrieval or by reranking."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor

from gnn_encoder.base.matrix import Rows
from gnn_encoder.base.view_pool import BEST, Pool
from gnn_encoder.text.batches import Batch
from gnn_encoder.text.corpus import embed_queries
from gnn_encoder.text.cross_encoder import CrossEncoder
from gnn_encoder.text.device import device
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.text.inputs import WINDOW, Inputs, encode_rows
from gnn_encoder.text.tokens import TextTokens
from gnn_encoder.training.collectives import shared_rows
from gnn_encoder.training.dev import DevSample

DEPTH = 10
QUERIES_AT_A_TIME = 512  # that rank the pool together


@dataclass(frozen=True, kw_only=True)
class Views:
    """What E_P reads in search: rows r * count to (r + 1) * count - 1 are passage r, whose score `pool` makes."""

    inputs: Inputs
    count: int = 1
    pool: Pool = BEST


def retrieval_score(
    encoder: DualEncoder, sample: DevSample, queries: TextTokens, read: Views, batch_tokens: int
) -> float:
    """RR@10 of the sampled queries, each of which ranks the pool, as E_P reads it, by the dot product of embeddings."""
    rows = (sample.pool[:, None] * read.count + np.arange(read.count)).reshape(-1)
    with no_grad_eval(encoder):
        asked = embed_queries(encoder, queries, batch_tokens, sample.queries)
        vectors = encode_together(read.inputs, rows, encoder.encode_passages, batch_tokens, encoder.dimension)
    of_queries = torch.from_numpy(asked).to(device())
    sides = of_queries, vectors, sample.relevant
    return float(reciprocal_ranks(*sides, own=sample.own, views=read.count, pool=read.pool).mean())


def reranking_score(
    model: CrossEncoder,
    candidates: pl.DataFrame,
    queries: TextTokens,
    passages: TextTokens,
    *,
    max_length: int,
    batch_tokens: int,
) -> float:
    """RR@10 of the sampled queries, each of which ranks its own passages of a DEV_CANDIDATES table by M_ce."""
    pairs = Inputs.of_table(candidates, queries, passages, model.template, max_length)
    with no_grad_eval(model):
        logits = encode_together(pairs, np.arange(len(pairs)), model.column_of_logits, batch_tokens, 1)
    return reranked_reciprocal_rank(candidates.with_columns(score=logits[:, 0].cpu().numpy()))


def reranked_reciprocal_rank(scored: pl.DataFrame, depth: int = DEPTH) -> float:
    """MRR@depth of candidates (columns query, relevant, score) by score; of equal ones the earlier row comes first."""
    order = pl.col("score").rank("ordinal", descending=True).over("query")
    best = scored.with_columns(rank=order).filter("relevant").group_by("query").agg(pl.col("rank").min())["rank"]
    # Sorted, since the groups come in any order and a sum depends on it in its last bits.
    return float((1 / best.filter(best <= depth).sort()).sum()) / scored["query"].n_unique()


def reciprocal_ranks(
    queries: Tensor,
    passages: Tensor,
    relevant: NDArray[np.bool_],
    depth: int = DEPTH,
    *,
    own: NDArray[np.bool_] | None = None,
    views: int = 1,
    pool: Pool = BEST,
) -> NDArray[np.float64]:
    """RR@depth of the queries, each of which ranks all passages but its `own` by their dot products.

    With several views a passage's score is what `pool` makes of theirs.

    *Shape:* queries (q, d), passages (p * views, d), relevant and own (q, p) -> (q,).
    """
    ranks = []
    for first in range(0, len(queries), QUERIES_AT_A_TIME):
        scores = queries[first : first + QUERIES_AT_A_TIME] @ passages.T
        if views > 1:
            scores = torch.from_numpy(pool.scores(scores.unflatten(1, (-1, views)).cpu().numpy()))
        if own is not None:
            scores[torch.from_numpy(own[first : first + QUERIES_AT_A_TIME])] = -torch.inf
        top = scores.topk(min(depth, scores.shape[1]), dim=1).indices.cpu().numpy()
        hits = np.take_along_axis(relevant[first : first + QUERIES_AT_A_TIME], top, axis=1)
        ranks.append(np.where(hits.any(axis=1), 1.0 / (1 + hits.argmax(axis=1)), 0.0))
    return np.concatenate(ranks)


def encode_together(
    inputs: Inputs, rows: Rows, encode: Callable[[Batch], Tensor], batch_tokens: int, columns: int
) -> Tensor:
    """As `encode_rows`, of rows that are the same on all ranks, which share their windows. *Shape:* (n, columns)."""
    return shared_rows(rows, WINDOW, columns, lambda part: encode_rows(inputs, part, encode, batch_tokens, columns))


@contextmanager
def no_grad_eval(module: torch.nn.Module) -> Iterator[None]:
    """A block in which `module` is in eval mode and no gradients are recorded; its mode is restored afterwards."""
    was_training = module.training
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        module.train(was_training)
