"""A built system as a retriever of BEIR's: `EvaluateRetrieval` ranks with its query encoder and its index."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NoReturn, Self

import numpy as np
from beir.retrieval.search import BaseSearch
from numpy.typing import NDArray
from tqdm import tqdm

from gnn_encoder.core.errors import UserError
from gnn_encoder.core.rows import Rows
from gnn_encoder.index.search import PassageIndex
from gnn_encoder.models.query_encoder import QueryEncoder
from gnn_encoder.searcher import Searcher

BATCH = 64  # queries that are searched together
BUILT = "the passages' vectors are in the built index: call `retrieve`, which searches it"


class BeirSearch(BaseSearch):  # type: ignore[misc]  # BEIR has no types
    """Searches a built system's index for BEIR. Its passages must be those of the corpus that BEIR has loaded.

    Example:
        ```python
        corpus, queries, qrels = GenericDataLoader("exported/beir").load(split="dev")
        evaluation = EvaluateRetrieval(BeirSearch.open("data/indexes/gnn_encoder"))
        results = evaluation.retrieve(corpus, queries)
        ndcg, average_precision, recall, precision = evaluation.evaluate(qrels, results, evaluation.k_values)
        ```
    """

    def __init__(self, encoder: QueryEncoder, index: PassageIndex) -> None:
        self.encoder = encoder
        self.index = index
        self._pids: list[str] = index.pids().to_pylist()

    @classmethod
    def open(cls, index: str | Path) -> Self:
        """Open a system as it was built, by its index, `data/indexes/SYSTEM` of a project; see `Searcher.open`."""
        return cls(Searcher.open(index).encoder, PassageIndex.open(Path(index)))

    def search(
        self, corpus: Collection[str], queries: dict[str, str], top_k: int, *args: object, **kwargs: object
    ) -> dict[str, dict[str, float]]:
        """Find the `top_k` best passages of each query.

        Args:
            corpus: BEIR's corpus by id, which must be what was indexed.
            queries: texts by id.
            top_k: passages a query; all, where the corpus has fewer.
            args: BEIR's name of a score function, which is not needed: the index knows how it scores.
            kwargs: other settings that BEIR may pass on, likewise.

        Returns:
            Query id -> passage id -> score. Of equal scores the later ones are lowered by the least difference that
            BEIR's evaluation can see, which orders them by their ids otherwise.

        Raises:
            UserError: the corpus holds other passages than the index.
        """
        self._check(corpus)
        k, texts = min(top_k, len(self._pids)), list(queries.values())
        results: dict[str, dict[str, float]] = {}
        with tqdm(total=len(texts), desc="queries", unit=" queries", disable=None) as bar:
            for first in range(0, len(texts), BATCH):
                vectors = self.encoder.embed_queries(texts[first : first + BATCH])
                rows, scores = self.index.search(vectors, k)
                results.update(zip(list(queries)[first : first + BATCH], self._named(rows, scores), strict=True))
                bar.update(len(rows))
        return results

    def encode(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Not needed.

        Raises:
            UserError: always.
        """
        raise UserError(BUILT)

    def search_from_files(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Not needed.

        Raises:
            UserError: always.
        """
        raise UserError(BUILT)

    def _named(self, rows: Rows, scores: NDArray[np.float32]) -> Iterator[dict[str, float]]:
        for found, values in zip(rows, apart(scores), strict=True):
            there = found >= 0
            yield {
                self._pids[row]: score for row, score in zip(found[there].tolist(), values[there].tolist(), strict=True)
            }

    def _check(self, corpus: Collection[str]) -> None:
        missing = next((pid for pid in self._pids if pid not in corpus), None)
        if missing is None and len(corpus) == len(self._pids):
            return
        found = f"has {len(corpus)}" if missing is None else f"has no passage {missing!r}"
        raise UserError(
            f"{self.index.folder}: holds {len(self._pids)} passages, BEIR's corpus {found}; evaluate on the "
            "data that was indexed (`gnn-encoder export --to beir`)"
        )


def apart(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """Lower scores by as little as makes each row fall strictly. *Shape:* (n, k), falling -> (n, k)."""
    result = scores.copy()
    for place in range(1, scores.shape[1]):
        below = np.nextafter(result[:, place - 1], np.float32(-np.inf))
        result[:, place] = np.minimum(result[:, place], below)
    return result
