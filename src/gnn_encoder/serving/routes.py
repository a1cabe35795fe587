"""Every endpoint: search, passages, explanations, what is served, and how it is."""

import asyncio
import time
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import AfterValidator, BaseModel, Field, StringConstraints

from gnn_encoder.pipeline.systems import System
from gnn_encoder.searcher import Hit
from gnn_encoder.serving.answers import (
    ExplainAnswer,
    FoundPassage,
    GraphPart,
    HealthAnswer,
    Marks,
    PassageAnswer,
    Placed,
    SearchAnswer,
    SystemAnswer,
    SystemsAnswer,
)
from gnn_encoder.serving.marks import matched, spans, words_of
from gnn_encoder.serving.problems import ProblemDetails
from gnn_encoder.serving.service import Service, pair_score
from gnn_encoder.serving.systems import Served

PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": ProblemDetails, "content": {"application/problem+json": {}}} for status in (404, 413, 422, 503)
}
EXAMPLE = "Does Medicare cover hearing aids?"


def question(limit: int) -> type[str]:
    """The type of a query: some words, at most `limit` characters."""
    return Annotated[  # type: ignore[return-value]
        str, StringConstraints(min_length=1, max_length=limit), AfterValidator(_has_words)
    ]


def search_routes(service: Service) -> APIRouter:
    """The endpoints, with the bounds of this server in their types."""
    router, limits = APIRouter(tags=["search"], responses=PROBLEMS), service.limits
    first = service.systems.names[0]
    question_type = question(limits.query)

    class SearchRequest(BaseModel):
        query: question_type = Field(examples=[EXAMPLE])  # type: ignore[valid-type]
        k: int = Field(min(10, limits.hits), ge=1, le=limits.hits, description="Passages to find.")
        system: str = Field(first, examples=[first])
        hybrid: bool = Field(False, description="Fuse with BM25, where it is served.")
        marks: bool = Field(False, description="Say where passages have words of the query.")

    async def answer(request: SearchRequest) -> Response:
        began = time.perf_counter()
        served = service.systems[request.system]
        done = await service.search(served, request.query, request.k, hybrid=request.hybrid)
        milliseconds = round(1e3 * (time.perf_counter() - began), 2)
        words = words_of(request.query) if request.marks else None
        body = SearchAnswer(
            query=request.query,
            system=request.system,
            hybrid=request.hybrid,
            milliseconds=milliseconds,
            hits=[_found(hit, words) for hit in done.hits],
        )
        return Response(body.model_dump_json(exclude_none=True), media_type="application/json")

    @router.get("/search", response_model=SearchAnswer, summary="Find passages")
    async def search(
        query: Annotated[question_type, Query(openapi_examples={"a question": {"value": EXAMPLE}})],  # type: ignore[valid-type]
        k: Annotated[int, Query(ge=1, le=limits.hits, description="Passages to find.")] = min(10, limits.hits),
        system: Annotated[str, Query(description="A system of /systems.")] = first,
        hybrid: Annotated[bool, Query(description="Fuse with BM25, where it is served.")] = False,
        marks: Annotated[bool, Query(description="Say where passages have words of the query.")] = False,
    ) -> Response:
        """The best passages for a query, best first."""
        return await answer(SearchRequest(query=query, k=k, system=system, hybrid=hybrid, marks=marks))

    @router.post("/search", response_model=SearchAnswer, summary="Find passages (query in the body)")
    async def search_by_body(request: SearchRequest) -> Response:
        """As GET, for queries that should not stand in an address or in its logs."""
        return await answer(request)

    @router.get("/passages/{pid:path}", summary="Read a passage")
    def passage(pid: str, system: Annotated[str, Query(description="A system of /systems.")] = first) -> PassageAnswer:
        """A passage by its id, as a result names it."""
        return PassageAnswer(**service.systems[system].passage(pid)[1])

    return router


def _found(hit: Hit, words: frozenset[str] | None) -> FoundPassage:
    marks = None if words is None else Marks(title=spans(words, hit.title), text=spans(words, hit.text))
    return FoundPassage(**asdict(hit), marks=marks)


def _has_words(query: str) -> str:
    if not query.strip():
        raise ValueError("must hold some words")
    query.encode()  # what no text can hold, such as half a surrogate pair, is refused here
    return query


def explain_routes(service: Service) -> APIRouter:
    """The endpoint, with the bounds of this server in its types."""
    router, first = APIRouter(tags=["search"], responses=PROBLEMS), service.systems.names[0]
    question_type = question(service.limits.query)

    @router.get("/explain", summary="Say why a passage was found")
    async def explain(
        query: Annotated[question_type, Query(openapi_examples={"a question": {"value": EXAMPLE}})],  # type: ignore[valid-type]
        pid: Annotated[str, Query(description="The passage's id.", openapi_examples={"a passage": {"value": "11526"}})],
        system: Annotated[str, Query(description="A system of /systems.")] = first,
    ) -> ExplainAnswer:
        """Words that match, score and rank with the graph and without, and the queries that informed the passage.

        The first question starts a process that reads the graph, which takes some seconds.
        """
        served = service.systems[system]
        row, passage = await asyncio.to_thread(served.passage, pid)
        base = service.systems.beside(system)
        graph = served.entry.kind == "graph"
        found = await service.explainer.explain(system, row, pid) if graph else None
        base_row = await asyncio.to_thread(base.table.row, pid) if base else None
        return ExplainAnswer(
            query=query,
            system=system,
            pid=pid,
            matched=matched(words_of(query), (passage["title"], passage["text"])),
            after=await _placed(service, served, query, row, pid),
            before=await _placed(service, base, query, base_row, pid) if base and base_row is not None else None,
            graph=GraphPart(**found) if found else None,
            note=_note(served.entry) if not graph else None,
        )

    return router


async def _placed(service: Service, served: Served, query: str, row: int, pid: str) -> Placed:
    """Where a system ranks the passage, and its score: that of the search where the search finds it."""
    depth = service.limits.hits
    done = await service.search(served, query, depth)
    hit = next((hit for hit in done.hits if hit.pid == pid), None)
    score = hit.score if hit else await asyncio.to_thread(pair_score, served, row, done.vector)
    rank = hit.rank if hit else None
    return Placed(system=served.name, title=served.entry.title, score=score, rank=rank, depth=depth)


def _note(entry: System) -> str:
    if entry.kind == "shifted":
        return f"{entry.title} has no graph: it shifts a passage's vector by the mean of its labelled training queries."
    return f"{entry.title} has no graph: no training query takes part in a passage's vector after training."


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
            limits={"query": limits.query, "k": limits.hits, "body": limits.body},
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
        graph=one.entry.kind == "graph",
        passages=index.passages,
        views=index.views,
        dimension=index.dimension,
        index=index.factory,
        opened=one.opened,
    )
