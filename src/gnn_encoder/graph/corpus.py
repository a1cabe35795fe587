"""Query-interactive embeddings of the whole corpus: the trained GNN over the full graph, passages in windows."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gnn_encoder.graph.neighbourhood import Neighbourhood
from gnn_encoder.graph.network import QueryPassageGNN


class CorpusGNN:
    """Turns windows of passage embeddings into h'_p (Eq. 8-10), every training question being in the graph.

    The questions' h'_q (Eq. 6, 7) are the same for all windows and computed once.

    Args:
        queries: E_Q of all training questions, by the trained encoder. *Shape:* (n, d).
    """

    def __init__(self, gnn: QueryPassageGNN, near: Neighbourhood, queries: NDArray[np.float32]) -> None:
        self._gnn, self._near = gnn.eval(), near
        self._queries = torch.from_numpy(queries).to(near.device)
        with torch.no_grad():
            self._interactive = near.interactive_queries(gnn, np.arange(len(queries)), self._queries)

    @torch.no_grad()
    def __call__(self, first: int, embeddings: NDArray[Any]) -> NDArray[np.float32]:
        """h'_p of the passages from row `first` on. *Shape:* (b, d) -> (b, d)."""
        subgraph = self._near.around(np.arange(first, first + len(embeddings)))
        questions = torch.from_numpy(subgraph.questions).to(self._near.device)
        h_p = torch.from_numpy(embeddings).to(self._near.device)
        informed = self._near.interactive_passages(
            self._gnn, subgraph, h_p, self._interactive[questions], self._queries[questions]
        )
        return informed.cpu().numpy()
