"""Every endpoint and every bound, in one process."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from gnn_encoder import Searcher
from gnn_encoder.core.errors import UserError
from gnn_encoder.core.storage.tables import read_column
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.pipeline import project
from gnn_encoder.serving.app import create_app
from gnn_encoder.serving.batches import MicroBatches
from gnn_encoder.serving.engine import Done, Engine, Work
from gnn_encoder.serving.settings import Limits

QUERY = "Which milk is halloumi made with?"
Client = Callable[..., TestClient]


@pytest.fixture
def client(built: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """Makes clients of apps over the project."""
    monkeypatch.chdir(built)
    with ExitStack() as stack:

        def make(*systems: str, **options: Any) -> TestClient:
            app = create_app(systems, hosts=None, **options)
            return stack.enter_context(TestClient(app, raise_server_exceptions=False))

        yield make


def problem(response: httpx.Response, status: int, name: str | None) -> str:
    """The detail of a problem, which must have the form of RFC 9457."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    told = response.json()
    assert told["status"] == status and told["title"]
    assert told["type"] == (f"urn:gnn-encoder:problem:{name}" if name else "about:blank")
    assert "\n" not in told["detail"]
    detail: str = told["detail"]
    return detail


def test_search_finds_what_the_searcher_finds(client: Client) -> None:
    app = client()
    for system in ("gnn_encoder", "dual_encoder"):
        expected = Searcher.open(project.index(system)).search(QUERY, 5)
        found = app.get("/search", params={"query": QUERY, "k": 5, "system": system}).json()
        assert (found["query"], found["system"], found["hybrid"]) == (QUERY, system, False)
        assert [(hit["rank"], hit["pid"], hit["title"], hit["text"]) for hit in found["hits"]] == [
            (hit.rank, hit.pid, hit.title, hit.text) for hit in expected
        ]
        assert [hit["score"] for hit in found["hits"]] == pytest.approx([hit.score for hit in expected], abs=1e-5)
        by_body = app.post("/search", json={"query": QUERY, "k": 5, "system": system}).json()
        assert by_body["hits"] == found["hits"] and found["milliseconds"] > 0


def test_search_defaults(client: Client) -> None:
    found = client().get("/search", params={"query": QUERY}).json()
    assert found["system"] == "gnn_encoder" and len(found["hits"]) == 10 and "marks" not in found["hits"][0]


def test_marks_are_code_points_of_the_query_s_words(client: Client) -> None:
    hits = client().get("/search", params={"query": "milk halloumi the", "k": 100, "marks": True}).json()["hits"]
    words = {hit["text"][first:last].lower() for hit in hits for first, last in hit["marks"]["text"]}
    assert "milk" in words and words <= {"milk", "milks", "halloumi"}


def test_a_passage(client: Client) -> None:
    expected = {"pid": "city-2", "title": ""}
    found = client().get("/passages/city-2").json()
    assert {name: found[name] for name in expected} == expected and found["text"].startswith("Dublin was founded by")
    assert "no passage has the id 'city-9999'" in problem(client().get("/passages/city-9999"), 404, "unknown-passage")


def test_systems(client: Client) -> None:
    told = client("dual_encoder", "gnn_encoder").get("/systems").json()
    assert told["default"] == "dual_encoder" and told["hybrid"] is False
    assert [(one["name"], one["title"], one["graph"], one["passages"]) for one in told["systems"]] == [
        *(("dual_encoder", "M_de", False, 120), ("gnn_encoder", "GNN-encoder", True, 120))
    ]
    assert told["limits"] == {"query": 1000, "k": 100, "body": 1048576}
    dev = read_column(project.queries("dev"), "text").to_pylist()
    assert 0 < len(told["examples"]) <= 6 and set(told["examples"]) <= set(dev)


def test_all_systems_and_unknown_ones(client: Client) -> None:
    names = [one["name"] for one in client("all").get("/systems").json()["systems"]]
    assert names == ["gnn_encoder", "dual_encoder", "query_mean"]
    with pytest.raises(UserError, match="--system is 'bm25': must be all or one of untouched, "):
        create_app(["bm25"])
    with pytest.raises(UserError, match="data/indexes/pair/manifest.json: no such file; make it first"):
        create_app(["pair"])


def test_a_system_that_is_not_served(client: Client) -> None:
    app = client("dual_encoder")
    detail = "'gnn_encoder' is not served: take one of dual_encoder"
    for path in ("/search", "/explain"):
        response = app.get(path, params={"query": "x", "pid": "city-2", "system": "gnn_encoder"})
        assert problem(response, 404, "unknown-system") == detail
    assert problem(app.get("/passages/a?system=gnn_encoder"), 404, "unknown-system") == detail


@pytest.mark.parametrize(
    ("path", "values", "told"),
    [
        ("/search", {}, "query: Field required"),
        ("/search", {"query": ""}, "query: String should have at least 1 character"),
        ("/search", {"query": " \t"}, "query: Value error, must hold some words"),
        ("/search", {"query": "a" * 21}, "query: String should have at most 20 characters"),
        ("/search", {"query": "x", "k": 0}, "k: Input should be greater than or equal to 1"),
        ("/search", {"query": "x", "k": 8}, "k: Input should be less than or equal to 7"),
        ("/explain", {"query": "a" * 21, "pid": "city-2"}, "query: String should have at most 20 characters"),
        ("/explain", {"query": "x"}, "pid: Field required"),
    ],
)
def test_bounds_of_addresses(client: Client, path: str, values: dict[str, Any], told: str) -> None:
    response = client(limits=Limits(query=20, hits=7)).get(path, params=values)
    assert problem(response, 422, "invalid-request") == told
    assert response.json()["errors"][0]["location"] == ["query", told.partition(":")[0]]


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("/search", {"query": "a" * 21}, "query: String should have at most 20 characters"),
        ("/search", {"query": "x", "k": 8}, "k: Input should be less than or equal to 7"),
        ("/search", {"query": 3}, "query: Input should be a valid string"),
    ],
)
def test_bounds_of_bodies(client: Client, path: str, body: dict[str, Any], told: str) -> None:
    response = client(limits=Limits(query=20, hits=7)).post(path, json=body)
    assert told in problem(response, 422, "invalid-request")


def test_text_that_is_no_text(client: Client) -> None:
    app = client()
    half = b'{"query": "\\ud800 life"}'
    assert app.post("/search", content=half, headers={"content-type": "application/json"}).status_code == 422
    problem(app.post("/search", content=b"{", headers={"content-type": "application/json"}), 422, "invalid-request")
    assert app.get("/search?query=%ff%00life").status_code == 200


@pytest.mark.parametrize("chunked", [False, True])
def test_bodies_that_are_too_large(client: Client, chunked: bool) -> None:
    app = client(limits=Limits(body=100))
    body = b'{"query": "' + b"a" * 100 + b'"}'
    content = iter([body[:60], body[60:]]) if chunked else body
    response = app.post("/search", content=content, headers={"content-type": "application/json"})
    detail = problem(response, 413, None if chunked else "body-too-large")
    assert "larger than 100 bytes" in detail
    assert app.post("/search", json={"query": "x"}).status_code == 200


def test_other_errors_are_problems_too(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    app = client()
    assert problem(app.get("/nothing"), 404, None) == "GET /nothing: Not Found"
    assert problem(app.put("/search"), 405, None) == "PUT /search: Method Not Allowed"
    monkeypatch.setattr(Engine, "__call__", lambda self, works: [OSError("disk")] * len(works))
    failed = app.get("/search?query=x")
    assert "disk" not in problem(failed, 500, "internal-error")
    assert failed.headers["x-content-type-options"] == "nosniff"
    monkeypatch.setattr(Engine, "__call__", lambda self, works: [UserError("index: bad")] * len(works))
    assert "index: bad" not in problem(app.get("/search?query=x"), 500, "broken-system")


def test_hybrid_only_where_it_is_served(client: Client) -> None:
    detail = problem(client().get("/search?query=x&hybrid=true"), 409, "no-hybrid")
    assert detail == "BM25 is not served: start the server with --hybrid"


def test_explanation_without_a_graph(client: Client) -> None:
    app = client("dual_encoder", "query_mean", limits=Limits(hits=1))
    best = app.get("/search", params={"query": QUERY, "system": "query_mean"}).json()["hits"][0]
    asked = {"query": "made of milk, in Dublin?", "system": "query_mean"}
    told = app.get("/explain", params={**asked, "pid": "city-2"}).json()
    assert told["graph"] is None and "shifts a passage's vector" in told["note"] and told["matched"] == ["dublin"]
    assert told["before"]["system"] == "dual_encoder" and told["after"]["system"] == "query_mean"
    encoder = DualEncoder.load(project.encoder("dual_encoder"), precision="fp32").for_inference()
    row = read_column(project.PASSAGES, "pid").to_pylist().index("city-2")
    vector = np.load(project.embeddings("dual_encoder") / "embeddings.npy")[row].astype(np.float32)
    score = float(encoder.embed_queries([asked["query"]])[0] @ vector)
    assert told["after"]["score"] == pytest.approx(score, abs=1e-5)
    found = app.get("/explain", params={"query": QUERY, "system": "query_mean", "pid": best["pid"]}).json()["after"]
    assert (found["rank"], found["score"], found["depth"]) == (1, best["score"], 1)


def test_health_and_metrics(client: Client) -> None:
    app = client()
    assert app.get("/health").json() == {
        **{"status": "ready", "live": True, "ready": True},
        **{"systems": ["gnn_encoder", "dual_encoder"], "waiting": 0},
    }
    assert app.get("/health/live").status_code == app.get("/health/ready").status_code == 200
    for _ in range(3):
        app.get("/search", params={"query": QUERY})
    app.get("/search")
    app.request("INVENTED", "/made-up")
    text = app.get("/metrics").text
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples["gnn_encoder_requests_total", "GET", "/search", "200"] == 3
    assert samples["gnn_encoder_requests_total", "GET", "/search", "422"] == 1
    assert samples["gnn_encoder_requests_total", "other", "none", "405"] == 1
    assert samples["gnn_encoder_request_seconds_count", "/search"] == 4
    assert samples["gnn_encoder_batch_queries_sum",] == 3
    assert samples["gnn_encoder_passages", "gnn_encoder"] == 120
    assert samples["gnn_encoder_waiting_queries",] == 0


def test_a_dead_encoder_thread_is_told_to_who_restarts(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    app = client()
    monkeypatch.setattr(MicroBatches, "alive", False)
    for path in ("/health/live", "/health/ready", "/health"):
        answer = app.get(path)
        assert answer.status_code == 503 and answer.json()["live"] is False


def test_openapi_has_an_example_of_each_request(client: Client) -> None:
    told = client().get("/openapi.json").json()
    assert {"/search", "/explain", "/passages/{pid}", "/systems", "/health", "/metrics"} <= set(told["paths"])
    query = told["paths"]["/search"]["get"]["parameters"][0]
    assert query["name"] == "query" and query["examples"]["a question"]["value"]
    assert query["schema"]["maxLength"] == 1000
    post = told["paths"]["/search"]["post"]
    name = post["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    assert any("examples" in field for field in told["components"]["schemas"][name]["properties"].values())
    assert "application/problem+json" in post["responses"]["422"]["content"]


def test_safe_headers_and_no_foreign_sources(client: Client) -> None:
    app = client()
    for path in ("/", "/search?query=x", "/nothing", "/page.js"):
        headers = app.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"
    for path in ("/", "/page.css", "/page.js"):
        response = app.get(path)
        assert response.status_code == 200 and "//" not in response.text.replace("// ", "").replace("*/", "")
        assert app.get(path, headers={"if-none-match": response.headers["etag"]}).status_code == 304
    assert app.get("/docs").status_code == 404 and app.get("/icon.svg").status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [("LocalHost:8000", 200), ("127.0.0.1", 200), ("[::1]:1", 200), ("evil.example:8000", 421), ("", 421)],
)
def test_only_known_hosts_may_call(built: Path, monkeypatch: pytest.MonkeyPatch, host: str, status: int) -> None:
    monkeypatch.chdir(built)
    response = TestClient(create_app(["dual_encoder"])).get("/systems", headers={"host": host})
    assert response.status_code == status
    if status == 421:
        problem(response, 421, "unknown-host")


def test_a_full_queue_is_told_with_a_time(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(built)
    begun, go = threading.Event(), threading.Event()
    work = Engine.__call__

    def held(self: Engine, works: Sequence[Work]) -> list[Done | Exception]:
        begun.set()
        assert go.wait(20)
        return work(self, works)

    monkeypatch.setattr(Engine, "__call__", held)
    app = create_app(["dual_encoder"], hosts=None, limits=Limits(waiting=1))

    async def main() -> None:
        transport = httpx.ASGITransport(app)
        async with running(app), httpx.AsyncClient(transport=transport, base_url="http://test", timeout=30) as client:
            first = asyncio.create_task(client.get("/search?query=a"))
            await asyncio.to_thread(begun.wait, 20)
            second = asyncio.create_task(client.get("/search?query=b"))
            while (await client.get("/health/live")).json()["waiting"] == 0:
                await asyncio.sleep(0.01)
            refused = await client.get("/search?query=c")
            assert "1 queries wait already, of 1 that may" in problem(refused, 503, "busy")
            assert refused.headers["retry-after"] == "1"
            assert (await client.get("/health")).status_code == 503
            assert (await client.get("/health/live")).status_code == 200
            go.set()
            assert [(await task).status_code for task in (first, second)] == [200, 200]

    asyncio.run(main())


def running(app: FastAPI) -> Any:
    """The app's life, which httpx's transport leaves out."""
    return app.router.lifespan_context(app)
