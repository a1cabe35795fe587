"""/systems, /health and /metrics: what is served, and how it is."""

from typing import Literal

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST

from gnn_encoder.pipeline.systems import GraphSystem
from gnn_encoder.serving.answers import HealthAnswer, SystemAnswer, SystemsAnswer
from gnn_encoder.serving.service import Service
from gnn_encoder.serving.systems import Served


def status_routes(service: Service) -> APIRouter:
    """The endpoints."""
    router = APIRouter(tags=["status"])

    @router.get("/systems", summary="What is served")
    def systems() -> SystemsAnswer:
        """The systems, the bounds of a request, and some queries to begin with."""
        limits = service.limits
        return SystemsAnswer(
            default=service.systems.names[0],
            systems=[_described(one) for one in service.systems],
            hybrid=service.systems.hybrid,
            limits={"query": limits.query, "k": limits.hits, "inputs": limits.inputs, "body": limits.body},
            examples=service.examples,
        )

    @router.get("/health", summary="Whether the server can answer", responses={503: {"model": HealthAnswer}})
    @router.get("/health/ready", include_in_schema=False)
    async def ready(response: Response) -> HealthAnswer:
        """Readiness: 200 if a search would be answered now, else 503, also while the queue is full."""
        found = _health(service)
        response.status_code = 200 if found.ready else 503
        return found

    @router.get("/health/live", summary="Whether the server is alive", responses={503: {"model": HealthAnswer}})
    async def live(response: Response) -> HealthAnswer:
        """Liveness: 200 as long as the process answers and its encoder thread works, else 503."""
        found = _health(service)
        response.status_code = 200 if found.live else 503
        return found

    @router.get("/metrics", response_class=Response, summary="Metrics for Prometheus")
    async def metrics() -> Response:
        """Requests, times, batches, the queue, and the process, as Prometheus reads them."""
        service.metrics.waiting.set(service.batches.size)
        for one in service.systems:
            service.metrics.passages.labels(one.name).set(one.searcher.index.passages)
        return Response(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    return router


def _health(service: Service) -> HealthAnswer:
    alive, waiting = service.batches.alive, service.batches.size
    ready = alive and waiting < service.limits.waiting
    names = list(service.systems.names)
    told: Literal["ready", "not ready"] = "ready" if ready else "not ready"
    return HealthAnswer(status=told, live=alive, ready=ready, systems=names, waiting=waiting)


def _described(one: Served) -> SystemAnswer:
    index = one.searcher.index
    return SystemAnswer(
        name=one.name,
        title=one.entry.title,
        graph=isinstance(one.entry, GraphSystem),
        passages=index.passages,
        views=index.views,
        dimension=index.dimension,
        index=index.factory,
        opened=one.opened,
    )
