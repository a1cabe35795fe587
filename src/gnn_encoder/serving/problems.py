"""Errors as problem details (RFC 9457): the one form in which every error of the server is told."""

import logging
from collections.abc import Mapping
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

log = logging.getLogger(__name__)
MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 1


class Fault(BaseModel):
    """One value of a request that breaks a rule."""

    location: list[str | int] = Field(examples=[["query", "k"]])
    detail: str = Field(examples=["Input should be less than or equal to 100"])


class ProblemDetails(BaseModel):
    """An error, as RFC 9457 says."""

    type: str = Field(examples=["urn:gnn-encoder:problem:unknown-system"])
    title: str = Field(examples=["Unknown system"])
    status: int = Field(examples=[404])
    detail: str = Field(examples=["'bm25' is not served: take one of gnn_encoder, dual_encoder"])
    errors: list[Fault] = Field(default=[])


class Problem(Exception):
    """An error of this server's own, with a name by which programs know it."""

    def __init__(self, status: int, name: str, detail: str, *, retry: bool = False) -> None:
        super().__init__(detail)
        self.status, self.name, self.detail = status, name, detail
        self.headers = {"Retry-After": str(RETRY_SECONDS)} if retry else {}


def busy(what: str) -> Problem:
    """The answer where a queue is full."""
    return Problem(503, "busy", f"{what}: try again in {RETRY_SECONDS} s", retry=True)


def problem_response(
    status: int,
    detail: str,
    *,
    name: str | None = None,
    errors: list[Fault] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A problem without a name is one of HTTP's own, which RFC 9457 calls `about:blank`."""
    body: dict[str, object] = {
        "type": f"urn:gnn-encoder:problem:{name}" if name else "about:blank",
        "title": name.replace("-", " ").capitalize() if name else HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
    }
    if errors:
        body["errors"] = [fault.model_dump() for fault in errors]
    return JSONResponse(body, status_code=status, headers=headers, media_type=MEDIA_TYPE)


def tell_problems(app: FastAPI, headers: Mapping[str, str]) -> None:
    """Have every error of the app answered as problem details.

    Args:
        headers: of the answer to an unexpected error, which passes no middleware.
    """

    @app.exception_handler(Problem)
    async def own(request: Request, error: Problem) -> Response:
        return problem_response(error.status, error.detail, name=error.name, headers=error.headers)

    @app.exception_handler(HTTPException)
    async def of_http(request: Request, error: HTTPException) -> Response:
        detail = f"{request.method} {request.url.path}: {error.detail}"
        return problem_response(error.status_code, detail, headers=error.headers)

    @app.exception_handler(RequestValidationError)
    async def of_values(request: Request, error: RequestValidationError) -> Response:
        faults = [Fault(location=list(one["loc"]), detail=one["msg"]) for one in error.errors()]
        told = "; ".join(f"{'.'.join(map(str, fault.location[1:]))}: {fault.detail}" for fault in faults)
        return problem_response(422, told, name="invalid-request", errors=faults)

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        detail = "the server failed at this request; its log says why"
        return problem_response(500, detail, name="internal-error", headers=headers)
