"""What holds for every request, whatever its route: size, host, headers, and being counted for Prometheus."""

import time
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gnn_encoder.serving.problems import problem_response

HEADERS = {
    "Cache-Control": "no-cache",  # the page is asked for again, and passages may have changed
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",  # a page's address holds the query
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}

METHODS = ("GET", "POST", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE")
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
            "gnn_encoder_batch_queries",
            "Queries encoded together.",
            registry=registry,
            buckets=(1, 2, 4, 8, 16, 32),
        )
        self.parts = Histogram(
            "gnn_encoder_batch_seconds", "Time of a batch's parts.", ["part"], registry=registry, buckets=SECONDS
        )
        self.waiting = Gauge("gnn_encoder_waiting_queries", "Queries that wait to be encoded.", registry=registry)
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


class Counted:
    """Counts and times requests, and adds the headers."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        with self._metrics.in_flight.track_inprogress():
            try:
                await self._app(scope, receive, noted)
            finally:
                route = getattr(scope.get("route"), "path", "none")
                method = scope["method"] if scope["method"] in METHODS else "other"  # clients must not make up labels
                self._metrics.requests.labels(method, route, status).inc()
                self._metrics.seconds.labels(route).observe(time.perf_counter() - began)


class BodyLimit:
    """Refuses bodies that are too large, told by their header or found while they are read."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app, self._most = app, most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        told = Headers(scope=scope).get("content-length", "0")
        if not told.isdecimal() or int(told) > self._most:
            await problem_response(413, self._detail, name="body-too-large")(scope, receive, send)
            return
        read = 0

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self._most:
                raise HTTPException(413, self._detail)
            return message

        await self._app(scope, counted, send)

    @property
    def _detail(self) -> str:
        return f"the request is larger than {self._most} bytes: send less at a time"


class KnownHosts:
    """Refuses other names of this machine, so that no foreign web page can read from a server on loopback."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str]) -> None:
        self._app, self._hosts = app, frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] == "http":
            host = Headers(scope=scope).get("host", "").lower()
            name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
            if name not in self._hosts:
                detail = f"host {name!r} is not one of this server's: start it with --allow-host {name or 'NAME'}"
                await problem_response(421, detail, name="unknown-host")(scope, receive, send)
                return
        await self._app(scope, receive, send)
