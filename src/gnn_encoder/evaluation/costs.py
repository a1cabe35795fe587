"""What a dense system costs: vectors and bytes a passage, milliseconds a query, seconds of making it."""

from dataclasses import dataclass


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
