"""Every endpoint and every bound, in one process."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from gnn_encoder import Searcher
from gnn_encoder.base.tables import read_column
from gnn_encoder.pipeline import project
from gnn_encoder.serve import create_app

from .conftest import QUERY

Client = Callable[..., TestClient]


@pytest.fixture
def client(built: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """Makes clients of apps over the project."""
    monkeypatch.chdir(built)
    with ExitStack() as stack:

        def make(*systems: str, **options: Any) -> TestClient:
            app = create_app(systems, **{"hosts": ["*"], **options})
            return stack.enter_context(TestClient(app, raise_server_exceptions=False))

        yield make


def test_search_finds_what_the_searcher_finds(client: Client) -> None:
    app = client()
    for system in ("gnn_encoder", "dual_encoder"):
        expected = Searcher.open(project.index(system)).search(QUERY, 5)
        found = app.get("/search", params={"query": f" {QUERY}", "k": 5, "system": system}).json()
        assert found["system"] == system and found["milliseconds"] > 0
        assert [(hit["rank"], hit["pid"], hit["title"], hit["text"]) for hit in found["hits"]] == [
            (hit.rank, hit.pid, hit.title, hit.text) for hit in expected
        ]
        assert [hit["score"] for hit in found["hits"]] == pytest.approx([hit.score for hit in expected], abs=1e-5)
    usual = app.get("/search", params={"query": QUERY}).json()
    assert not usual["truncated"] and app.get("/search", params={"query": f"{QUERY} " * 20}).json()["truncated"]
    assert usual["system"] == "gnn_encoder" and len(usual["hits"]) == 10


def test_systems(client: Client) -> None:
    told = client("dual_encoder", "gnn_encoder").get("/systems").json()
    assert [(one["name"], one["title"], one["graph"], one["passages"]) for one in told["systems"]] == [
        *(("dual_encoder", "M_de", False, 120), ("gnn_encoder", "GNN-encoder", True, 120))
    ]
    assert told["examples"] == read_column(project.queries("dev"), "text").to_pylist()[:6]
    names = [one["name"] for one in client("all").get("/systems").json()["systems"]]
    assert names == ["gnn_encoder", "dual_encoder", "labels_alone"]


def test_bounds(client: Client) -> None:
    app = client("dual_encoder")
    for values, told in (
        ({}, "query: Field required"),
        ({"query": " \t"}, "query: is empty; give it some words"),
        ({"query": "\u200b"}, "query: is empty; give it some words"),
        ({"query": "a" * 1001}, "query: String should have at most 1000 characters"),
        ({"query": "x", "k": 0}, "k: Input should be greater than or equal to 1"),
        ({"query": "x", "k": 101}, "k: Input should be less than or equal to 100"),
    ):
        answer = app.get("/search", params=values)
        assert (answer.status_code, answer.json()) == (422, {"detail": told})
    assert app.get("/search?query=%ff%00life").status_code == 200  # no text, but bounded


def test_what_is_not_there(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    app = client("dual_encoder")
    for path in ("/search?query=x", "/explain?pid=city-2"):
        answer = app.get(f"{path}&system=gnn_encoder")
        told = "'gnn_encoder' is not served: take one of dual_encoder"
        assert (answer.status_code, answer.json()["detail"]) == (404, told)
    answer = app.get("/explain?pid=city-2")
    assert answer.status_code == 409 and answer.json()["detail"].startswith("M_de has no graph")
    assert (app.get("/nothing").status_code, app.put("/search").status_code) == (404, 405)
    assert app.get("/docs").status_code == 404  # its scripts would come from elsewhere
    monkeypatch.setattr(Searcher, "answer", lambda self, queries, k: 1 / 0)
    failed = app.get("/search?query=x")
    assert failed.status_code == 500 and "division" not in failed.text


def test_metrics_and_health(client: Client) -> None:
    app = client()
    app.get("/search?query=x")
    app.get("/search?query=")
    app.get("/made-up-by-a-client")
    assert app.get("/healthz").json() == {"status": "ok"}
    families = {one.name: one for one in text_string_to_metric_families(app.get("/metrics").text)}
    samples = families["gnn_encoder_request_seconds"].samples
    counts = {tuple(one.labels.values()): one.value for one in samples if one.name.endswith("_count")}
    assert counts.pop(("/search", "200")) == counts.pop(("/search", "422")) == counts.pop(("/healthz", "200")) == 1
    assert all("made-up" not in route for route, _ in counts)


def test_headers_are_safe(client: Client) -> None:
    app = client("dual_encoder")
    for path in ("/", "/page.js", "/healthz", "/metrics", "/search?query=x", "/search", "/nothing"):
        headers = app.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"


def test_only_known_hosts_may_call(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(built)
    app = TestClient(create_app(["dual_encoder"]))
    hosts = {"LocalHost:8000": 200, "127.0.0.1": 200, "[::1]:1": 200, "evil.example:8000": 400, "": 400}
    assert {host: app.get("/systems", headers={"host": host}).status_code for host in hosts} == hosts
