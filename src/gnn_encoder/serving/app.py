"""The app factory: a FastAPI app over the built systems of a project."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles

import gnn_encoder
from gnn_encoder.serving.batches import MicroBatches
from gnn_encoder.serving.engine import Engine
from gnn_encoder.serving.explainer import Explainer
from gnn_encoder.serving.middleware import HEADERS, BodyLimit, Counted, KnownHosts, Metrics
from gnn_encoder.serving.problems import tell_problems
from gnn_encoder.serving.routes import explain_routes, search_routes, status_routes
from gnn_encoder.serving.service import Service
from gnn_encoder.serving.settings import Limits
from gnn_encoder.serving.systems import Systems, example_queries

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
DESCRIPTION = "Dense passage retrieval in which passage embeddings know the queries that retrieve them."
DEFAULTS = Limits()


def create_app(
    systems: Sequence[str] = (),
    *,
    hybrid: bool = False,
    explain: bool = False,
    hosts: Sequence[str] | None = LOOPBACK,
    limits: Limits = DEFAULTS,
) -> FastAPI:
    """Open built systems of the project in the current folder and make the app that serves them.

    The folder must not change while the app runs.

    Args:
        systems: which ones, or `all`; none: GNN-encoder and M_de, as far as they are built.
        hybrid: whether BM25 can be searched beside them.
        explain: whether the process that explains starts with the app, not with the first question.
        hosts: the names by which clients may call the server; None: any.
        limits: bounds of requests and of what waits.

    Raises:
        UserError: a system is unknown or not built.
    """
    service = open_service(systems, hybrid=hybrid, explain=explain, limits=limits)

    @asynccontextmanager
    async def running(app: FastAPI) -> AsyncIterator[None]:
        async with service.running():
            yield

    # The interactive documentation of FastAPI loads its scripts from elsewhere; /openapi.json describes the API.
    options = {"docs_url": None, "redoc_url": None, "version": gnn_encoder.__version__}
    app = FastAPI(title="gnn-encoder", description=DESCRIPTION, lifespan=running, **options)  # type: ignore[arg-type]
    # Redirects would name the host and the path by which a reverse proxy calls, not those of its clients.
    app.router.redirect_slashes = False
    app.state.service = service
    tell_problems(app, HEADERS)
    for routes in (search_routes, explain_routes, status_routes):
        app.include_router(routes(service))
    app.mount("/", StaticFiles(packages=[("gnn_encoder.serving", "page")], html=True))
    app.add_middleware(BodyLimit, most=limits.body)
    if hosts is not None:
        app.add_middleware(KnownHosts, hosts=hosts)
    app.add_middleware(Counted, metrics=service.metrics)
    return app


def open_service(systems: Sequence[str], *, hybrid: bool, explain: bool, limits: Limits) -> Service:
    """Open all that the endpoints share; see `create_app`."""
    metrics = Metrics()
    opened = Systems.open(systems, hybrid=hybrid)
    engine = Engine(metrics.time)
    return Service(
        systems=opened,
        batches=MicroBatches(engine, waiting=limits.waiting, batch=limits.batch, observe=metrics.batch.observe),
        explainer=Explainer(limits, started=metrics.explainers.inc),
        metrics=metrics,
        limits=limits,
        examples=example_queries(),
        explain_at_start=explain,
    )
