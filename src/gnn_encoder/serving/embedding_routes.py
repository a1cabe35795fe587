"""/v1: query embeddings in the shape of OpenAI's API, for clients that exist."""

import base64
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Response
from pydantic import BaseModel, Field, TypeAdapter

from gnn_encoder.pipeline.systems import DenseSystem, GraphSystem
from gnn_encoder.serving.engine import Work
from gnn_encoder.serving.problems import Problem
from gnn_encoder.serving.routes import EXAMPLE, PROBLEMS, question
from gnn_encoder.serving.service import Service
from gnn_encoder.serving.systems import Served

OF_QUERIES = ("query", "search_query")  # words for the role that clients of asymmetric models send
TO_JSON = TypeAdapter(dict[str, Any]).dump_json


class Model(BaseModel):
    """A system's query encoder, as OpenAI's API lists models."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: Literal["gnn-encoder"] = "gnn-encoder"


class Models(BaseModel):
    """The query encoders that are served."""

    object: Literal["list"] = "list"
    data: list[Model]


class Embedding(BaseModel):
    """One text's embedding: numbers, or with `base64` little-endian float32."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class Embeddings(BaseModel):
    """Embeddings in the order of the texts."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: dict[str, int]


def embedding_routes(service: Service) -> APIRouter:
    """The endpoints, with the bounds of this server in their types."""
    router, limits = APIRouter(prefix="/v1", tags=["embeddings"], responses=PROBLEMS), service.limits
    question_type = question(limits.query)

    class EmbeddingsRequest(BaseModel):
        input: (
            question_type  # type: ignore[valid-type]
            | Annotated[list[question_type], Field(min_length=1, max_length=limits.inputs)]  # type: ignore[valid-type]
        ) = Field(examples=[EXAMPLE])
        model: str = Field(examples=[service.systems.names[0]], description="A system of /systems.")
        encoding_format: Literal["float", "base64"] = "float"
        dimensions: int | None = Field(None, description="Only the model's own.")
        input_type: str | None = Field(None, description="Only `query`: passages' vectors come from an export.")
        user: str | None = None

    @router.post("/embeddings", response_model=Embeddings, summary="Embed queries")
    async def embeddings(request: EmbeddingsRequest) -> Response:
        """Embeddings of queries, whose inner product with a system's passage vectors is the score."""
        served = service.systems[request.model]
        _check(served, request.input_type, request.dimensions)
        texts = [request.input] if isinstance(request.input, str) else request.input
        parts = [texts[first : first + limits.batch] for first in range(0, len(texts), limits.batch)]
        works = [Work(texts=tuple(part), encoder=served.searcher.encoder) for part in parts]
        parts_done = await service.batches.submit(works)
        vectors = np.concatenate([done.vectors for done in parts_done])
        tokens = sum(int(done.tokens.sum()) for done in parts_done)
        body = {
            "object": "list",
            "data": [
                {"object": "embedding", "index": place, "embedding": _written(vector, request.encoding_format)}
                for place, vector in enumerate(vectors)
            ],
            "model": request.model,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }
        return Response(TO_JSON(body), media_type="application/json")

    @router.get("/models", summary="List the query encoders")
    def models() -> Models:
        """The systems whose query encoders are served."""
        return Models(data=[Model(id=one.name, created=int(one.opened.timestamp())) for one in service.systems])

    return router


def _check(served: Served, input_type: str | None, dimensions: int | None) -> None:
    if input_type is not None and input_type not in OF_QUERIES:
        raise Problem(422, "passages-are-exported", _passages(served.name, served.entry))
    own = served.searcher.index.dimension
    if dimensions not in (None, own):
        raise Problem(422, "other-dimensions", f"dimensions is {dimensions}: {served.name} has {own}, leave it out")


def _passages(name: str, entry: DenseSystem) -> str:
    why = (
        "its passages' vectors come from the graph of queries, not from their text alone"
        if isinstance(entry, GraphSystem)
        else "its passages' vectors are those of its index"
    )
    return f"this model embeds queries only: {why}; `gnn-encoder export --to npy --system {name} FOLDER` writes them"


def _written(vector: np.ndarray, form: str) -> list[float] | str:
    if form == "base64":
        return base64.b64encode(vector.astype("<f4").tobytes()).decode()
    found: list[float] = vector.tolist()
    return found
