"""The dev score during training: RR@10 of a fixed sample of dev queries, which rank a fixed pool of passages."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor

from gnn_encoder.training.examples import Rows


@dataclass(frozen=True)
class DevSample:
    """Sampled dev queries and their pool: M_de's top passages of every sampled query, and all their positives."""

    queries: Rows  # (q,) rows of the dev table, in order
    pool: Rows  # (p,) passage rows, sorted
    relevant: NDArray[np.bool_]  # (q, p)


def sample_queries(pairs: pl.DataFrame, size: int, seed: int) -> Rows:
    """A fixed random sample of the judged dev queries."""
    judged = pairs["query"].unique().sort().to_numpy().astype(np.int64)
    chosen = np.random.default_rng(seed).permutation(judged)[:size]
    return np.sort(chosen)


def retrieved_pairs(queries: Rows, retrieved: NDArray[np.integer[Any]]) -> pl.DataFrame:
    """Queries with their retrieved passages, columns query, passage. *Shape:* queries (q,), retrieved (q, depth)."""
    columns = {"query": np.repeat(queries, retrieved.shape[1]), "passage": retrieved.reshape(-1)}
    return pl.DataFrame({name: rows.astype(np.int32) for name, rows in columns.items()})


def dev_sample(queries: Rows, pairs: pl.DataFrame, retrieved: NDArray[np.integer[Any]]) -> DevSample:
    """The sample of `queries`, with its pool and its relevant passages.

    Args:
        queries: sampled rows of the dev table, ascending. *Shape:* (q,).
        pairs: judged-relevant pairs of the dev split, columns query, passage.
        retrieved: M_de's top passages of each sampled query. *Shape:* (q, depth).
    """
    position = pl.DataFrame({"query": queries.astype(np.int32), "position": np.arange(len(queries))})
    own = pairs.join(position, on="query")
    passages = own["passage"].to_numpy().astype(np.int64)
    pool = np.unique(np.concatenate([retrieved.reshape(-1).astype(np.int64), passages]))
    relevant = np.zeros((len(queries), len(pool)), dtype=bool)
    relevant[own["position"].to_numpy(), np.searchsorted(pool, passages)] = True
    return DevSample(queries, pool, relevant)


def reciprocal_ranks(
    queries: Tensor, passages: Tensor, relevant: NDArray[np.bool_], depth: int = 10
) -> NDArray[np.float64]:
    """RR@depth of the queries, each of which ranks all passages by dot product.

    *Shape:* queries (q, d), passages (p, d), relevant (q, p) -> (q,).
    """
    top = (queries @ passages.T).topk(min(depth, len(passages)), dim=1).indices.cpu().numpy()
    hits = np.take_along_axis(relevant, top, axis=1)
    return np.where(hits.any(axis=1), 1.0 / (1 + hits.argmax(axis=1)), 0.0)


def mean_reciprocal_rank(queries: Tensor, passages: Tensor, relevant: NDArray[np.bool_], depth: int = 10) -> float:
    """MRR@depth: the mean of `reciprocal_ranks`."""
    return float(reciprocal_ranks(queries, passages, relevant, depth).mean())


def no_grad_eval(module: torch.nn.Module) -> "_Evaluating":
    """A block in which `module` is in eval mode and no gradients are recorded; its mode is restored afterwards."""
    return _Evaluating(module)


class _Evaluating:
    def __init__(self, module: torch.nn.Module) -> None:
        self._module, self._guard = module, torch.no_grad()

    def __enter__(self) -> None:
        self._was_training = self._module.training
        self._module.eval()
        self._guard.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._guard.__exit__(*error)
        self._module.train(self._was_training)
