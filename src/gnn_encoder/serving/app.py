"""The app factory: a FastAPI app over the built systems of a project, with all endpoints."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from pydantic import AfterValidator, BaseModel, Field, StringConstraints
from pydantic_core import PydanticCustomError
from starlette.middleware.trustedhost import TrustedHostMiddleware

import gnn_encoder
from gnn_encoder.base.tables import QUERIES, open_table
from gnn_encoder.base.words import is_empty
from gnn_encoder.pipeline import project
from gnn_encoder.searcher import Hit
from gnn_encoder.serving.batches import QueueFull
from gnn_encoder.serving.explainer import Explainer
from gnn_encoder.serving.guard import Guard
from gnn_encoder.serving.systems import Served, Systems

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
MOST_HITS = 100
MOST_CHARACTERS = 1_000  # of a query, or of a name
EXAMPLES = 6  # dev queries that the page offers
REFUSED = (404, 409, 422, 503)  # statuses of requests that are not answered
POLL = 2.0  # seconds between looks whether an index is new


Name = Annotated[str, StringConstraints(max_length=MOST_CHARACTERS)]


def _seen(query: str) -> str:
    """A query in which something can be seen: another one would fail those that are searched together with it."""
    if is_empty(query):
        raise PydanticCustomError("empty", "is empty; give it some words")
    return query


class Refusal(BaseModel):
    """Why a request is not answered, in one line."""

    detail: str


class SearchRequest(BaseModel):
    """A query; `system` is a name of /systems, by default the first."""

    query: Annotated[Name, StringConstraints(strip_whitespace=True), AfterValidator(_seen)]
    k: int = Field(10, ge=1, le=MOST_HITS)
    system: Name | None = None


class SearchAnswer(BaseModel):
    """The passages found, best first.

    `milliseconds` passed from the request's arrival to its result; `truncated`: the encoder did not read the query's
    end.
    """

    system: str
    milliseconds: float
    truncated: bool
    hits: list[Hit]


class SystemAnswer(BaseModel):
    """A system that is served; `graph` says whether /explain can tell of its passages."""

    name: str
    title: str
    graph: bool
    passages: int


class SystemsAnswer(BaseModel):
    """All that are served, and some dev queries to begin with."""

    systems: list[SystemAnswer]
    examples: list[str]


def create_app(
    systems: Sequence[str] = (), *, hybrid: bool = False, hosts: Sequence[str] = LOOPBACK, poll: float = POLL
) -> FastAPI:
    """Open built systems of the project in the current folder, which must not change, and make the app.

    Args:
        systems: which ones, or `all`; none: GNN-encoder and M_de, as far as they are built.
        hybrid: whether each is fused with BM25.
        hosts: the names by which clients may call the server, `*`: any.
        poll: seconds between looks whether an index is new.
    """
    served, explainer, registry = Systems(systems, hybrid=hybrid), Explainer(), CollectorRegistry()

    async def keep_up() -> None:
        while True:
            await asyncio.sleep(poll)
            if await served.take_over():
                explainer.retire()

    @asynccontextmanager
    async def running(app: FastAPI) -> AsyncIterator[None]:
        task = asyncio.create_task(keep_up())
        yield
        task.cancel()
        explainer.close()

    # The interactive documentation of FastAPI loads its scripts from elsewhere; /openapi.json describes the API.
    about: Any = {"title": "gnn-encoder", "version": gnn_encoder.__version__, "docs_url": None, "redoc_url": None}
    app = FastAPI(**about, lifespan=running, responses={code: {"model": Refusal} for code in REFUSED})
    app.router.redirect_slashes = False  # a redirect would name the host by which a reverse proxy calls
    _add_routes(app, served, explainer, _examples(), " and BM25" if hybrid else "")

    @app.get("/metrics")
    def metrics() -> Response:
        """Times of requests by route and status, for Prometheus."""
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    app.mount("/", StaticFiles(packages=[("gnn_encoder.serving", "page")], html=True))
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False)
    app.add_middleware(Guard, registry=registry)
    return app


def _add_routes(app: FastAPI, systems: Systems, explainer: Explainer, examples: list[str], beside: str) -> None:
    def named(name: str | None) -> Served:
        try:
            return systems[name or systems.names[0]]
        except KeyError:
            told = f"{name!r} is not served: take one of {', '.join(systems.names)}"
            raise HTTPException(404, told) from None

    @app.get("/search")
    async def search(request: Annotated[SearchRequest, Query()]) -> SearchAnswer:
        """Find passages."""
        began, system = time.perf_counter(), named(request.system)
        try:
            found = await system.batches.submit((request.query, request.k))
        except QueueFull:
            raise HTTPException(503, "too many queries wait: try again", {"Retry-After": "1"}) from None
        milliseconds = 1e3 * (time.perf_counter() - began)
        return SearchAnswer(system=system.name, milliseconds=milliseconds, truncated=found.truncated, hits=found.hits)

    @app.get("/explain")
    async def explain(pid: Name, system: Name | None = None) -> Any:
        """The queries that informed a passage, with their attention, and how far the gate let them move its vector.

        The first question starts a process that reads the graph, which takes some seconds.
        """
        asked = named(system)
        if asked.entry.kind != "graph":
            raise HTTPException(409, f"{asked.entry.title} has no graph: no query takes part in its passages' vectors")
        return await explainer.explain(asked.name, pid)

    @app.get("/systems")
    def what_is_served() -> SystemsAnswer:
        """The systems, and queries to begin with."""
        return SystemsAnswer(systems=[_described(systems[name], beside) for name in systems.names], examples=examples)

    @app.get("/healthz")
    async def health() -> dict[str, str]:
        """200 as soon as every system is open."""
        return {"status": "ok"}

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        """In one line, without the values, which may be no text."""
        faults = (f"{'.'.join(map(str, one['loc'][1:]))}: {one['msg']}" for one in error.errors())
        return JSONResponse({"detail": "; ".join(faults)}, 422)


def _described(one: Served, beside: str) -> SystemAnswer:
    is_graph, passages = one.entry.kind == "graph", one.searcher.index.passages
    return SystemAnswer(name=one.name, title=one.entry.title + beside, graph=is_graph, passages=passages)


def _examples() -> list[str]:
    path = project.queries("dev")
    if not path.is_file():
        return []
    first = next(open_table(path, QUERIES).iter_batches(batch_size=EXAMPLES, columns=["text"]), None)
    return first.column("text").to_pylist() if first is not None else []
