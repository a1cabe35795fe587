"""What a dense system costs: vectors and bytes a passage, milliseconds a query, seconds of making it."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gnn_encoder.core.rows import Matrix, Rows, Scores

if TYPE_CHECKING:  # who only reads costs needs neither FAISS nor torch
    from gnn_encoder.index.search import PassageIndex
    from gnn_encoder.models.dual_encoder import DualEncoder

QUERIES = 200  # queries that are timed, one at a time
WARM_UP = 20  # queries that are searched before these
DEPTH = 100  # passages a query
LookUp = Callable[[str, Matrix, tuple[Rows, Scores]], object]


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Costs of one system that searches vectors, alone or beside something else.

    `training_seconds` is null where the model, or an artifact that it was made from, was not made on this machine, or
    only after an interruption.
    """

    vectors_a_passage: float
    bytes_a_passage: float
    search_ms: float  # median time of searching the top 100 passages of one encoded query
    encode_ms: float  # median time of encoding one query
    training_seconds: float | None
    lookup_ms: float = 0.0  # median time of a second look-up, in logged queries or in BM25's index, and of joining both

    @property
    def latency_ms(self) -> float:
        """Milliseconds from a query to its passages."""
        return self.encode_ms + self.search_ms + self.lookup_ms


def measure_costs(
    index: "PassageIndex",
    encoder: "DualEncoder",
    texts: Sequence[str],
    *,
    training_seconds: float | None = None,
    depth: int = DEPTH,
    look_up: LookUp | None = None,
    look_up_bytes: int = 0,
) -> Costs:
    """Measure a dense system.

    Args:
        texts: queries; the first ones are asked.
        training_seconds: what making the system took.
        depth: passages per query.
        look_up: what is done for a query after the search, with its text, its vector and the passages found; None:
            nothing.
        look_up_bytes: size of what that needs.
    """
    seconds = []
    for text in texts[: QUERIES + WARM_UP]:
        start = time.perf_counter()
        vector = encoder.embed_queries([text])
        encoded = time.perf_counter()
        found = index.search(vector, min(depth, index.passages))
        searched = time.perf_counter()
        if look_up:
            look_up(text, vector, found)
        seconds.append((encoded - start, searched - encoded, time.perf_counter() - searched if look_up else 0.0))
    warm = WARM_UP if len(seconds) > WARM_UP else 0
    encode, search, second = 1000 * np.median(seconds[warm:], axis=0)
    return Costs(
        vectors_a_passage=index.index.ntotal / index.passages,
        bytes_a_passage=(index.bytes + look_up_bytes) / index.passages,
        search_ms=float(search),
        encode_ms=float(encode),
        lookup_ms=float(second),
        training_seconds=training_seconds,
    )
