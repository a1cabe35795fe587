"""What holds for every request, whatever its route: safe headers, an answer to HEAD, its time taken."""

import time

from prometheus_client import CollectorRegistry, Histogram
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "Cache-Control": "no-cache",  # passages may have changed
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",  # the page's address holds the query
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    """Passes requests on to the app."""

    def __init__(self, app: ASGIApp, registry: CollectorRegistry) -> None:
        names = ("gnn_encoder_request_seconds", "Time to answer.", ["route", "status"])
        self._app, self._seconds = app, Histogram(*names, registry=registry)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500
        if scope["method"] == "HEAD":  # the server that runs the app leaves the body out
            scope = {**scope, "method": "GET"}

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            route = getattr(scope.get("route"), "path", "other")  # clients must not make up labels
            self._seconds.labels(route, status).observe(time.perf_counter() - began)
