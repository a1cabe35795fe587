"""What the server counts, for Prometheus. Each app has a registry of its own."""

from contextlib import AbstractContextManager
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

SECONDS = (0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 20.0, 60.0)


class Metrics:
    """All metrics; names say the unit."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.requests = Counter(
            "gnn_encoder_requests", "Requests answered.", ["method", "route", "status"], registry=registry
        )
        self.seconds = Histogram(
            "gnn_encoder_request_seconds", "Time to answer.", ["route"], registry=registry, buckets=SECONDS
        )
        self.in_flight = Gauge("gnn_encoder_requests_in_flight", "Requests being answered.", registry=registry)
        self.batch = Histogram(
            "gnn_encoder_batch_texts", "Texts encoded together.", registry=registry, buckets=(1, 2, 4, 8, 16, 32, 64)
        )
        self.parts = Histogram(
            "gnn_encoder_batch_seconds", "Time of a batch's parts.", ["part"], registry=registry, buckets=SECONDS
        )
        self.waiting = Gauge("gnn_encoder_waiting_texts", "Texts that wait to be encoded.", registry=registry)
        self.taken_over = Counter(
            "gnn_encoder_indexes_taken_over", "Newly built indexes taken over.", ["system"], registry=registry
        )
        self.explainers = Counter("gnn_encoder_explainers_started", "Processes that explain.", registry=registry)
        self.passages = Gauge("gnn_encoder_passages", "Passages that are searched.", ["system"], registry=registry)

    def time(self, part: str) -> AbstractContextManager[Any]:
        """A context that measures a part of a batch."""
        return self.parts.labels(part).time()

    def text(self) -> bytes:
        """All metrics as Prometheus reads them."""
        return generate_latest(self.registry)
