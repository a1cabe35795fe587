"""/search and /passages: what people and programs ask for most."""

import time
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import AfterValidator, BaseModel, Field, StringConstraints

from gnn_encoder.searcher import Hit
from gnn_encoder.serving.answers import FoundPassage, Marks, PassageAnswer, SearchAnswer
from gnn_encoder.serving.marks import spans, words_of
from gnn_encoder.serving.problems import ProblemDetails
from gnn_encoder.serving.service import Service

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
            hits=[_found(hit, words) for hit in done.hits[0]],
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
