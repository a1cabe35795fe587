"""Query-interactive embeddings h'_p of the whole corpus: the trained GNN over the full graph, window by window."""

from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from gnn_encoder.base.matrix import Rows
from gnn_encoder.base.tables import ATTENTION
from gnn_encoder.graph.neighbourhood import Neighbourhood, Subgraph
from gnn_encoder.graph.network import QueryPassageGNN


class CorpusGNN:
    """Turns windows of passage embeddings h_p into h'_p (Eq. 8-10). All queries of the graph take part, none is masked.

    The queries' h'_q (Eq. 6, 7) are the same for all windows, and are computed once.

    Args:
        queries: E_Q of all queries of the graph, by the trained encoder. *Shape:* (n, d).
        interactive: their h'_q where it is known; None: it is computed. *Shape:* (n, d).
    """

    def __init__(
        self,
        gnn: QueryPassageGNN,
        near: Neighbourhood,
        queries: NDArray[np.float32],
        interactive: NDArray[np.float32] | None = None,
    ) -> None:
        self._gnn, self.near = gnn.eval(), near
        self._queries = torch.from_numpy(queries).to(near.device)
        with torch.no_grad():
            self._interactive = (
                near.interactive_queries(gnn, np.arange(len(queries)), self._queries)
                if interactive is None
                else torch.from_numpy(interactive).to(near.device)
            )

    @property
    def interactive(self) -> NDArray[np.float32]:
        """h'_q of all queries of the graph. *Shape:* (n, d)."""
        return self._interactive.cpu().numpy()

    @property
    def retrieved(self) -> Rows:
        """Passages that some query retrieved, ascending. All other passages attend to themselves alone."""
        return np.flatnonzero(np.diff(self.near.graph.indptr))

    def __call__(self, first: int, embeddings: NDArray[Any]) -> NDArray[np.float32]:
        """h'_p of the passages from row `first` on. *Shape:* (b, d) -> (b, d)."""
        return self.inform(self.near.around(np.arange(first, first + len(embeddings))), embeddings)

    @torch.no_grad()
    def inform(self, subgraph: Subgraph, embeddings: NDArray[Any]) -> NDArray[np.float32]:
        """h'_p of a subgraph's passages. *Shape:* (b, d) -> (b, d)."""
        informed = self.near.interactive_passages(self._gnn, subgraph, *self._nodes(subgraph, embeddings))
        self.near.release()
        return informed.cpu().numpy()

    @torch.no_grad()
    def explain(self, passages: Rows, embeddings: NDArray[Any]) -> pa.Table:
        """The attention, as the mean over heads, and the gates of some passages, as the `ATTENTION` table.

        *Shape:* passages (b,), embeddings (b, d).
        """
        subgraph = self.near.around(passages)
        heads, gates = self.near.explain(self._gnn, subgraph, *self._nodes(subgraph, embeddings))
        attention, gate = heads.mean(dim=1).cpu().numpy(), gates.cpu().numpy()
        itself = np.full(len(passages), -1)
        query = np.concatenate([subgraph.queries[subgraph.edge_query], itself])
        target = np.concatenate([subgraph.edge_passage, np.arange(len(passages))])
        columns = [query, passages[target], attention, gate[target]]
        order = np.argsort(target, kind="stable")  # each passage: first its queries, then the passage itself
        return pa.table(
            [pa.array(column[order], field.type) for column, field in zip(columns, ATTENTION, strict=True)],
            schema=ATTENTION,
        )

    def _nodes(self, subgraph: Subgraph, embeddings: NDArray[Any]) -> tuple[Tensor, Tensor, Tensor]:
        """h_p, h'_q and h_q of a subgraph. *Shape:* (b, d) -> (b, d), (u, d), (u, d)."""
        queries = torch.from_numpy(subgraph.queries).to(self.near.device)
        h_p = torch.from_numpy(embeddings).to(self.near.device)
        return h_p, self._interactive[queries], self._queries[queries]
