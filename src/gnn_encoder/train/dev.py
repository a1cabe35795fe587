"""The dev score of an encoder while it trains: RR@10 of fixed dev queries, which rank a pool or M_ce's candidates."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from gnn_encoder.base.distributed import rank, world_size
from gnn_encoder.base.judgements import relevant_pairs, with_rows
from gnn_encoder.base.matrix import Mask, Matrix, Rows
from gnn_encoder.base.runs import read_run
from gnn_encoder.base.tables import DEV_CANDIDATES, QRELS, read_table, write_table
from gnn_encoder.data.answers import answered, best_answered, judged_by_answers
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.project import LEXICAL
from gnn_encoder.text.batches import WINDOW, Inputs, encode_rows
from gnn_encoder.text.corpus import embed_queries
from gnn_encoder.text.cross_encoder import CrossEncoder
from gnn_encoder.text.device import device, on_device
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.text.tokens import TextTokens

WHOLE = 2_000  # a corpus of at most so many passages is ranked whole
POOL_DEPTH = 10  # passages that a dev query adds to a pool; the systems that make it share them
CUTOFF = 10  # of the reciprocal rank
QUERIES_AT_A_TIME = 512  # that rank the pool together


def sample_queries(pairs: pl.DataFrame, size: int, seed: int) -> Rows:
    """A fixed random sample of the judged queries, of those with a row in `pairs`."""
    judged = pairs["query"].unique().sort().to_numpy().astype(np.int64)
    return np.sort(np.random.default_rng(seed).permutation(judged)[:size])


def retrieved_pairs(queries: Rows, retrieved: NDArray[np.integer[Any]]) -> pl.DataFrame:
    """Queries with their retrieved passages, columns query, passage. *Shape:* queries (q,), retrieved (q, depth)."""
    columns = {"query": np.repeat(queries, retrieved.shape[1]), "passage": retrieved.reshape(-1)}
    return pl.DataFrame({name: rows.astype(np.int32) for name, rows in columns.items()})


def candidates_of(queries: Rows, pairs: pl.DataFrame, retrieved: pl.DataFrame) -> pl.DataFrame:
    """The relevant and the `retrieved` pairs (columns query, passage) of some queries, as the DEV_CANDIDATES table."""
    relevant = pairs.select("query", "passage", relevant=pl.lit(True))
    others = retrieved.unique().join(pairs, on=["query", "passage"], how="anti")
    found = pl.concat([relevant, others.with_columns(relevant=pl.lit(False))])
    return found.filter(pl.col("query").is_in(queries.tolist())).sort("query", "passage")


def write_dev(folder: Path, runs: Mapping[str, Path], params: Params) -> None:
    """Write the relevant passages of the dev queries, and candidates of sampled ones, from the first systems' runs.

    Relevant are the judged passages or, in data that are judged by answers, BM25's best one with an answer.
    """
    queries, table = project.queries("dev"), read_table(project.qrels("dev"), QRELS)
    ranked = {name: read_run(of / project.run_file(name, "dev").name) for name, of in runs.items()}
    if by_answers := judged_by_answers(queries):
        table = best_answered(ranked[LEXICAL], queries, project.PASSAGES)
    write_table(folder / project.POSITIVES.name, QRELS, [table.to_arrow()])
    pairs = relevant_pairs(queries, folder / project.POSITIVES.name, project.PASSAGES)
    sample = sample_queries(pairs, params.dev.queries, params.seed)
    depth = -(-POOL_DEPTH // len(ranked))  # of each: together they bring in as many as M_de alone for MGT
    top = pl.concat([found.filter(pl.col("rank") <= depth) for found in ranked.values()])
    found = with_rows(top, queries, project.PASSAGES).filter(pl.col("query").is_in(sample.tolist()))
    found = found.select("query", "passage").unique()
    if by_answers:  # whatever holds an answer is relevant
        pairs = pl.concat([pairs, answered(found, queries, project.PASSAGES)]).unique()
    pool = candidates_of(sample, pairs, found)
    write_table(folder / project.DEV_CANDIDATES.name, DEV_CANDIDATES, [pool.to_arrow()])


@dataclass(frozen=True)
class DevSample:
    """Sampled dev queries and their pool: passages that were retrieved for one of them, and all their positives."""

    queries: Rows  # (q,) rows of the dev table, in order
    pool: Rows  # (p,) passage rows, sorted
    relevant: Mask  # (q, p)
    own: Mask | None = None  # (q, p), passages that a query is itself, which it does not rank


def dev_sample(
    queries: Rows, pairs: pl.DataFrame, retrieved: NDArray[np.integer[Any]], own: pl.DataFrame | None = None
) -> DevSample:
    """The sample of `queries`, ascending rows of the dev table, whose pool is `retrieved` and all their positives.

    `pairs` are judged relevant, `own` are queries and the passages that they are themselves: columns query, passage.
    *Shape:* queries (q,), retrieved any.
    """
    asked = pl.col("query").is_in(queries.tolist())
    judged = pairs.filter(asked)["passage"].to_numpy().astype(np.int64)
    pool = np.unique(np.concatenate([retrieved.reshape(-1).astype(np.int64), judged]))

    def among(pairs: pl.DataFrame) -> Mask:
        mask = np.zeros((len(queries), len(pool)), dtype=bool)
        pairs = pairs.filter(asked, pl.col("passage").is_in(pool.tolist()))
        rows, columns = (pairs[name].to_numpy() for name in ("query", "passage"))
        mask[np.searchsorted(queries, rows), np.searchsorted(pool, columns)] = True
        return mask

    return DevSample(queries, pool, among(pairs), None if own is None or own.is_empty() else among(own))


def pooled_sample(found: pl.DataFrame, n_passages: int, own: pl.DataFrame | None = None) -> DevSample:
    """The sample of trainings that have no passage matrix of their start: a DEV_CANDIDATES table makes its pool."""
    queries, passages = found["query"].unique().sort().to_numpy().astype(np.int64), found["passage"].to_numpy()
    return dev_sample(queries, found.filter("relevant"), ranked(passages, n_passages, WHOLE), own)


def ranked(retrieved: NDArray[np.integer[Any]], n_passages: int, limit: int) -> NDArray[np.integer[Any]]:
    """The passages that are ranked: the whole corpus if it has at most `limit` passages, else the `retrieved` ones."""
    return np.arange(n_passages) if n_passages <= limit else retrieved


def retrieval_score(
    encoder: DualEncoder, sample: DevSample, queries: TextTokens, read: Inputs, batch_tokens: int
) -> float:
    """RR@10 of the sampled queries, each of which ranks the pool, as E_P reads it, by the dot product of embeddings."""
    rows = (sample.pool[:, None] * read.views + np.arange(read.views)).reshape(-1)
    with no_grad_eval(encoder):
        asked = embed_queries(encoder, queries, batch_tokens, sample.queries)
        how = encoder.encode_passages, batch_tokens, encoder.dimension
        vectors = shared_rows(rows, WINDOW, encoder.dimension, lambda part: encode_rows(read, part, *how))
    sides = on_device(asked), vectors, sample.relevant
    return float(reciprocal_ranks(*sides, own=sample.own, views=read.views).mean())


def reranking_score(model: CrossEncoder, candidates: pl.DataFrame, pairs: Inputs, batch_tokens: int) -> float:
    """RR@10 of the sampled queries, each of which ranks its `pairs` of a DEV_CANDIDATES table by M_ce."""
    with no_grad_eval(model):
        how = (lambda batch: model.logits(batch).unsqueeze(1)), batch_tokens, 1
        logits = shared_rows(np.arange(len(pairs)), WINDOW, 1, lambda part: encode_rows(pairs, part, *how))
    return reranked_reciprocal_rank(candidates.with_columns(score=logits[:, 0].cpu().numpy()))


def reranked_reciprocal_rank(scored: pl.DataFrame) -> float:
    """RR@10 of candidates (columns query, relevant, score) by score; of equal ones the earlier row comes first."""
    order = pl.col("score").rank("ordinal", descending=True).over("query")
    best = scored.with_columns(rank=order).filter("relevant").group_by("query").agg(pl.col("rank").min())["rank"]
    # Sorted, since the groups come in any order and a sum depends on it in its last bits.
    return float((1 / best.filter(best <= CUTOFF).sort()).sum()) / scored["query"].n_unique()


def reciprocal_ranks(
    queries: Tensor, passages: Tensor, relevant: Mask, *, own: Mask | None = None, views: int = 1
) -> NDArray[np.float64]:
    """RR@10 of the queries, each of which ranks all passages but its `own` by their dot products.

    With several views a passage's score is the best of theirs (Dual-Cross-Encoder Eq. 11).

    *Shape:* queries (q, d), passages (p * views, d), relevant and own (q, p) -> (q,).
    """
    ranks = []
    for first in range(0, len(queries), QUERIES_AT_A_TIME):
        part = slice(first, first + QUERIES_AT_A_TIME)
        scores = queries[part] @ passages.T
        if views > 1:
            scores = scores.unflatten(1, (-1, views)).amax(dim=2)
        if own is not None:
            scores[torch.from_numpy(own[part])] = -torch.inf
        top = scores.topk(min(CUTOFF, scores.shape[1]), dim=1).indices.cpu().numpy()
        ranks.append(of_hits(np.take_along_axis(relevant[part], top, axis=1)))
    return np.concatenate(ranks)


def of_hits(hits: Mask) -> NDArray[np.float64]:
    """The reciprocal rank of each query's first hit; 0 without one. *Shape:* (q, depth) -> (q,)."""
    return np.where(hits.any(axis=1), 1.0 / (1 + hits.argmax(axis=1)), 0.0)


def shared_rows(rows: Rows, window: int, columns: int, encode: Callable[[Rows], Matrix | Tensor]) -> Tensor:
    """What `encode` makes of some rows, `window` at a time, which ranks take in turn. *Shape:* (n,) -> (n, columns).

    A window is encoded as a whole whatever the number of ranks, so that not a bit depends on it.
    """
    found = torch.zeros(len(rows), columns, device=device())
    for first in range(rank() * window, len(rows), world_size() * window):
        found[first : first + window] = torch.as_tensor(encode(rows[first : first + window]))
    if world_size() > 1:
        dist.all_reduce(found)
    return found


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
