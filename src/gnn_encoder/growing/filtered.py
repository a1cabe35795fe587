"""Searching a FAISS index without some of its rows, which it goes on holding.

Most types of FAISS take a selector of rows: flat, scalar quantiser, RaBitQ, all inverted files, HNSW, and any of these
behind a transform or a refinement. The others (PQ, additive quantisers, their fast scans, NSG) refuse it. They are
asked for ever more rows, until enough of them count. The second way alone would do for all; the first is faster.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import faiss as untyped
import numpy as np
from numpy.typing import NDArray

from gnn_encoder.core.judgements import contains
from gnn_encoder.core.rows import Rows, Scores
from gnn_encoder.index.views import MISSING, by_score_then_row

faiss: Any = untyped  # its own types are of another version, and know no parameters of searches


@dataclass(frozen=True)
class FilteredIndex:
    """A FAISS index, and the rows of it that must not be found, ascending."""

    index: Any  # faiss.Index
    hidden: Rows

    @cached_property
    def _selector(self) -> Any:
        return faiss.IDSelectorNot(faiss.IDSelectorBatch(self.hidden))

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[Rows, Scores]:
        """The k best rows of each query that are not hidden, best first, -1 where there are fewer.

        Where an inverted file or HNSW finds fewer than there are, it searches ever more lists or candidates.

        *Shape:* (n, d) -> (n, k) each.
        """
        rows: Rows = np.full((len(queries), k), -1, dtype=np.int64)
        scores: Scores = np.full((len(queries), k), MISSING, dtype=np.float32)
        possible = min(k, self.index.ntotal - len(self.hidden))
        waiting, width, effort = np.arange(len(queries)), k, 1
        while len(waiting) and possible:
            found, values, hidden = self._search(queries[waiting], width, effort)
            rows[waiting], scores[waiting] = found[:, :k], values[:, :k]
            waiting = waiting[rows[waiting, possible - 1] < 0]
            if hidden and width < self.index.ntotal:
                width = min(2 * width, self.index.ntotal)
            elif effort < self.index.ntotal:
                effort *= 2
            else:
                break
        return rows, scores

    def _search(self, queries: NDArray[np.float32], width: int, effort: int) -> tuple[Rows, Scores, bool]:
        """One search: what is not hidden comes first; and whether any hidden row was met."""
        plain = not len(self.hidden) and effort == 1
        try:
            parameters = None if plain else search_parameters(self.index, self._selector, effort)
            scores, rows = self.index.search(queries, width, params=parameters)
        except RuntimeError:  # this type takes no parameters
            scores, rows = self.index.search(queries, width)
        hidden = contains(self.hidden, rows)
        rows[hidden], scores[hidden] = -1, MISSING
        return *by_score_then_row(rows, scores), bool(hidden.any())


def search_parameters(index: Any, selector: Any, effort: int) -> Any:
    """What tells an index of any type which rows count, and how thoroughly to search.

    Args:
        selector: a faiss.IDSelector.
        effort: this times as many lists of an inverted file, or candidates of HNSW, as the index is set to.
    """
    index = faiss.downcast_index(index)
    if isinstance(index, faiss.IndexPreTransform):
        return faiss.SearchParametersPreTransform(index_params=search_parameters(index.index, selector, effort))
    if isinstance(index, faiss.IndexRefine):
        inner = search_parameters(index.base_index, selector, effort)
        return faiss.IndexRefineSearchParameters(k_factor=index.k_factor, base_index_params=inner)
    if isinstance(index, faiss.IndexIVF):
        return faiss.SearchParametersIVF(sel=selector, nprobe=min(index.nlist, effort * index.nprobe))
    if isinstance(index, faiss.IndexHNSW):
        return faiss.SearchParametersHNSW(sel=selector, efSearch=min(index.ntotal, effort * index.hnsw.efSearch))
    return faiss.SearchParameters(sel=selector)
