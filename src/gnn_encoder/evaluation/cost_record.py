"""What a dense system costs, as `compare` measures it and metrics/costs.json holds it."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Of one dense system. `training_seconds` is null where an artifact on the way was not made here in one run."""

    vectors_a_passage: float
    bytes_a_passage: float
    search_ms: float  # median of one query's search for its top 100, encoded already
    encode_ms: float  # median of encoding one query
    training_seconds: float | None

    @property
    def latency_ms(self) -> float:
        """Milliseconds from a query to its passages."""
        return self.encode_ms + self.search_ms
