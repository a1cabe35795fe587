"""The page for people at /: one HTML, one CSS and one JavaScript file, all from here."""

import hashlib
from collections.abc import Callable
from importlib.resources import files

from fastapi import APIRouter, Request, Response

TYPES = {"index.html": "text/html", "page.css": "text/css", "page.js": "text/javascript"}


def page_routes() -> APIRouter:
    """The page and its files."""
    router = APIRouter(include_in_schema=False)
    folder = files("gnn_encoder.serving") / "page"
    for name, media_type in TYPES.items():
        path = "/" if name == "index.html" else f"/{name}"
        router.add_api_route(path, _file((folder / name).read_bytes(), media_type), methods=["GET"])
    router.add_api_route("/favicon.ico", _nothing, methods=["GET"])
    return router


def _file(content: bytes, media_type: str) -> Callable[[Request], Response]:
    """An endpoint that sends a file, or says that the browser's copy is still good."""
    tag = f'"{hashlib.blake2b(content, digest_size=8).hexdigest()}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}

    def send(request: Request) -> Response:
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=media_type, headers=headers)

    return send


def _nothing() -> Response:
    return Response(status_code=204)
