"""What GNN-encoder and its control start from and train on, and the dev sample that scores them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.base.matrix import Matrix, Rows
from gnn_encoder.pipeline.params import MGT, Dev
from gnn_encoder.search.exact import array_top_k
from gnn_encoder.text.corpus import embed_queries
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.text.tokens import TextTokens
from gnn_encoder.train.candidates import POOL_DEPTH, retrieved_pairs, sample_queries
from gnn_encoder.train.dev import DevSample, dev_sample, ranked
from gnn_encoder.train.dual_encoder import Texts
from gnn_encoder.train.examples import Examples

# Gives those of some pairs of a dev query and a passage (columns query, passage) that hold an answer.
Answered = Callable[[pl.DataFrame], pl.DataFrame]


@dataclass(frozen=True, kw_only=True)
class Given:
    """What GNN-encoder and its control start from and train on.

    Attributes:
        encoder: M_de, which training changes.
        cached: its passage embeddings. *Shape:* (m, d).
        dev_pairs: judged-relevant pairs of the dev queries, columns query, passage.
        dev_own: dev queries and the passages that they are themselves, columns query, passage.
        answered: where answers judge; None: the pairs are all.
        frozen_layers, batch_tokens, chunk_size: those of section `encoder`.
    """

    encoder: DualEncoder
    examples: Examples
    queries: TextTokens
    passages: TextTokens
    cached: NDArray[Any]
    dev_queries: TextTokens
    dev_pairs: pl.DataFrame
    answered: Answered | None
    dev_own: pl.DataFrame
    dev: Dev
    mgt: MGT
    seed: int
    frozen_layers: int
    batch_tokens: int
    chunk_size: int

    def texts(self, queries: TextTokens) -> Texts:
        """Some queries, and the passages."""
        return Texts(self.encoder, queries, self.passages, batch_tokens=self.batch_tokens, chunk_size=self.chunk_size)

    def embed(self, queries: TextTokens, rows: Rows | None = None) -> Matrix:
        """E_Q of some queries by the present weights. *Shape:* (n, d)."""
        self.encoder.eval()
        return embed_queries(self.encoder, queries, self.batch_tokens, rows)

    def sample(self, *, whole: int, queries: int) -> DevSample:
        """The dev sample; see `draw_dev`."""
        return draw_dev(
            self.dev_pairs,
            lambda rows: self.embed(self.dev_queries, rows),
            self.cached,
            size=queries if len(self.cached) <= whole else self.dev.queries,
            whole=whole,
            depth=POOL_DEPTH,
            seed=self.seed,
            answered=self.answered,
            own=self.dev_own,
        )


def draw_dev(
    pairs: pl.DataFrame,
    embed: Callable[[Rows], Matrix],
    cached: NDArray[Any],
    *,
    size: int,
    whole: int,
    depth: int,
    seed: int,
    answered: Answered | None = None,
    own: pl.DataFrame | None = None,
) -> DevSample:
    """The fixed dev sample, with a pool that M_de retrieves from its passage matrix, or with the whole small corpus.

    In data that are judged by answers, the relevant passages of a query are BM25's best passage that holds an answer,
    and those of M_de's top passages of this query that hold one. The other passages of the pool count as not relevant.

    Args:
        pairs: judged-relevant pairs of the dev queries, columns query, passage.
        embed: E_Q of some of these queries. *Shape:* (q,) -> (q, d).
        cached: M_de's passage embeddings. *Shape:* (m, d).
        size: most queries.
        whole: a corpus of at most so many passages is ranked whole.
        depth: passages that each query adds to a pool.
        own: as in `dev_sample`.
    """
    rows, m = sample_queries(pairs, size, seed), len(cached)
    retrieved: Rows = np.empty((len(rows), 0), dtype=np.int64)
    if m > whole or answered is not None:
        retrieved, _ = array_top_k(cached, embed(rows), min(depth, m), name="candidates of dev queries")
    if answered is not None:
        hits = answered(retrieved_pairs(rows, retrieved))
        pairs = pl.concat([pairs, hits]).unique().sort("query", "passage")
    return dev_sample(rows, pairs, ranked(retrieved, m, whole), own)
