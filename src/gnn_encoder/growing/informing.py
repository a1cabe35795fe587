"""Passages informed by their queries: Eq. 8-10 on edges that are given, with what the GNN made of them."""

from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from gnn_encoder.graph.network import QueryPassageGNN
from gnn_encoder.growing.encoding import Matrix, PairEncoder
from gnn_encoder.growing.nodes import QueryNodes
from gnn_encoder.growing.segment import EDGES, H_Q, H_Q_PRIME
from gnn_encoder.models.device import device
from gnn_encoder.pipeline.params import Params

EDGES_AT_A_TIME = 65_536  # whose features are in memory, and those of one passage more


class Informer:
    """The trained GNN over the nodes of a state.

    Args:
        m_ce: the encoder of the edges' features; None: the GNN does not read any of M_ce's.
    """

    def __init__(self, gnn: QueryPassageGNN, nodes: QueryNodes, m_ce: PairEncoder | None, params: Params) -> None:
        self.gnn, self.nodes, self.m_ce = gnn, nodes, m_ce
        self._most = params.mgt.max_neighbours

    def __call__(self, passages: pl.DataFrame, h_p: Matrix, links: pl.DataFrame) -> tuple[Matrix, pa.Table]:
        """h'_p of passages.

        Args:
            passages: columns title, text.
            h_p: their embeddings by the jointly trained encoder. *Shape:* (b, d).
            links: as `LINKS`, `passage` a row of `h_p`.

        Returns:
            h'_p, and the edges as `EDGES`. *Shape:* (b, d).
        """
        links = links.sort("passage", "score", "query", descending=[False, True, False])
        if self._most is not None:
            links = links.filter(pl.int_range(pl.len()).over("passage") < self._most)
        count = np.bincount(links["passage"].to_numpy(), minlength=len(h_p))
        parts = [self._inform(passages, h_p, links, *part) for part in _parts(count)]
        edges = pl.concat([edges for _, edges in parts]).select(EDGES.names).to_arrow().cast(EDGES)
        return np.concatenate([vectors for vectors, _ in parts]), edges

    @torch.no_grad()
    def _inform(
        self, passages: pl.DataFrame, h_p: Matrix, links: pl.DataFrame, first: int, last: int
    ) -> tuple[Matrix, pl.DataFrame]:
        """The passages from row `first` to before row `last`."""
        low, high = np.searchsorted(links["passage"].to_numpy(), [first, last])
        links = links[low:high]
        queries, edge_query = np.unique(links["query"].to_numpy(), return_inverse=True)
        edge_passage = links["passage"].to_numpy() - first
        features = self._features(passages[first:last], queries, edge_query, edge_passage)
        inputs = (
            to_tensor(h_p[first:last]),
            to_tensor(self.nodes.take(H_Q_PRIME, queries)),
            torch.from_numpy(edge_query.astype(np.int64)).to(device()),
            torch.from_numpy(edge_passage.astype(np.int64)).to(device()),
            *features,
        )
        labelled = to_tensor(links["labelled"].to_numpy()) if self.gnn.config.labelled else None
        h_q = to_tensor(self.nodes.take(H_Q, queries))
        informed = self.gnn.interactive_passages(*inputs, h_q=h_q, labelled=labelled)
        explained = self.gnn.explain(*inputs, h_q=h_q, labelled=labelled)
        attention, gate = (values.cpu().numpy() for values in explained)
        itself = pl.DataFrame({"passage": np.arange(first, last, dtype=np.int32)}).with_columns(
            query=pl.lit(-1, pl.Int32), score=pl.lit(None, pl.Float32), labelled=pl.lit(False)
        )
        target = np.concatenate([edge_passage, np.arange(last - first)])
        edges = pl.concat([links, itself.select(links.columns)])
        edges = edges.with_columns(attention=pl.Series(attention), gate=pl.Series(gate[target]))
        return informed.cpu().numpy(), edges.sort("passage", maintain_order=True)

    def _features(
        self, passages: pl.DataFrame, queries: NDArray[Any], edge_query: NDArray[Any], edge_passage: NDArray[Any]
    ) -> tuple[Tensor | None, Tensor | None]:
        """M_ce's features of the edges and of the passages' self-loops. *Shape:* (E, d_e), (b, d_e)."""
        if self.m_ce is None:
            return None, None
        asked, told = self.nodes.texts(queries), passage_texts(self.m_ce, passages)
        itself = np.arange(len(told))
        edges = self.m_ce.features(asked, told, (edge_query, edge_passage))
        return to_tensor(edges), to_tensor(self.m_ce.features(told, told, (itself, itself)))


def passage_texts(m_ce: PairEncoder, passages: pl.DataFrame) -> list[str]:
    """Passages as M_ce reads them."""
    return [m_ce.passage_text(*one) for one in passages.select("title", "text").iter_rows()]


def to_tensor(values: NDArray[Any]) -> Tensor:
    """As float32, where models run."""
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32)).to(device())


def _parts(count: NDArray[np.integer[Any]]) -> list[tuple[int, int]]:
    """Runs of passages with not too many edges, as their first rows and those behind their last. *Shape:* (b,)."""
    group = (np.cumsum(count) - count) // EDGES_AT_A_TIME
    cuts = [0, *(np.flatnonzero(np.diff(group)) + 1).tolist(), len(count)]
    return list(zip(cuts, cuts[1:], strict=False))
