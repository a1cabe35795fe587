"""The service, asked all that its OpenAPI allows, and what it does not: no answer is a server's error."""

import os
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import given
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from gnn_encoder.serve.app import create_app

from ..conftest import LONG

CHECKS = [not_a_server_error, response_schema_conformance, status_code_conformance]


@pytest.fixture(scope="module")
def app(built: Path) -> Iterator[FastAPI]:
    """Of a system without a graph; with `--long` also of one whose passages a process of its own explains."""
    with chdir(built):
        yield create_app(["dual_encoder", *(["gnn_encoder"] if os.environ.get(LONG) else [])], hosts=["*"])


ALLOWED, FORBIDDEN = GenerationMode.POSITIVE, GenerationMode.NEGATIVE
ROUTES = [(path, ALLOWED) for path in ("/search", "/explain", "/systems", "/healthz", "/metrics")]
ROUTES += [("/search", FORBIDDEN), ("/explain", FORBIDDEN)]


@pytest.mark.parametrize(("path", "mode"), ROUTES)
def test_requests(app: FastAPI, path: str, mode: GenerationMode) -> None:
    operation = schemathesis.openapi.from_asgi("/openapi.json", app)[path]["GET"]

    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: schemathesis.Case) -> None:
        case.validate_response(case.call(), checks=CHECKS)

    ask()
