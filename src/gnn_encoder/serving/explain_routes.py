"""/explain: why a passage stands where it stands, and what the graph did to it."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query

from gnn_encoder.pipeline.systems import DenseSystem, GraphSystem, ShiftedSystem
from gnn_encoder.serving.answers import ExplainAnswer, GraphPart, Placed
from gnn_encoder.serving.marks import matched, words_of
from gnn_encoder.serving.search_routes import EXAMPLE, PROBLEMS, question
from gnn_encoder.serving.service import Service, pair_score
from gnn_encoder.serving.systems import Served


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
        graph = isinstance(served.entry, GraphSystem)
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
    hit = next((hit for hit in done.hits[0] if hit.pid == pid), None)
    score = hit.score if hit else await asyncio.to_thread(pair_score, served, row, done.vectors[0])
    rank = hit.rank if hit else None
    return Placed(system=served.name, title=served.entry.title, score=score, rank=rank, depth=depth)


def _note(entry: DenseSystem) -> str:
    if isinstance(entry, ShiftedSystem):
        return f"{entry.title} has no graph: it shifts a passage's vector by the mean of its labelled training queries."
    return f"{entry.title} has no graph: no training query takes part in a passage's vector after training."
