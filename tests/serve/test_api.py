"""Every endpoint and every bound, in one process."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from fastapi.testclient import TestClient

from gnn_encoder import Searcher
from gnn_encoder.base.matrix import open_matrix
from gnn_encoder.base.tables import read_column
from gnn_encoder.gnn.neighbourhood import open_informer
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import load_params
from gnn_encoder.serve import LOOPBACK, create_app

from ..built import BASE, MOVED, SYSTEM
from .conftest import QUERY


@pytest.fixture(autouse=True)
def root(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(built)


def client(*systems: str, **options: Any) -> TestClient:
    """Of an app over the project."""
    return TestClient(create_app(systems, **{"hosts": ["*"]} | options), raise_server_exceptions=False)


def test_search_finds_what_the_searcher_finds() -> None:
    app = client()
    for system in (MOVED, BASE):
        expected = [vars(hit) for hit in Searcher.open(project.index(system)).search(QUERY, 5)]
        found = app.get("/search", params={"query": f" {QUERY}", "k": 5, "system": system}).json()
        assert found["system"] == system and found["milliseconds"] > 0
        assert found["hits"] == [hit | {"score": pytest.approx(hit["score"], abs=1e-5)} for hit in expected]
    usual = app.get("/search", params={"query": QUERY}).json()
    assert not usual["truncated"] and app.get("/search", params={"query": f"{QUERY} " * 20}).json()["truncated"]
    assert usual["system"] == "gnn_encoder_plus" and len(usual["hits"]) == 10


def test_systems() -> None:
    app = client(BASE, SYSTEM)
    assert app.get("/healthz").json() == {"status": "ok"}
    assert app.get("/systems").json() == {
        "systems": [
            {"name": BASE, "title": "M_de", "graph": False, "passages": 120},
            {"name": SYSTEM, "title": "GNN-encoder", "graph": True, "passages": 120},
        ],
        "examples": read_column(project.queries("dev"), "text").to_list()[:6],
    }
    names = [one["name"] for one in client("all").get("/systems").json()["systems"]]
    assert names == ["gnn_encoder_plus", "dual_encoder", "gnn_encoder"]


def test_an_explanation_is_what_the_network_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    inform = open_informer(load_params())[0]
    labelled = pl.read_parquet(project.qrels("train")).filter(pl.col("grade") > 0)
    passages = pl.read_parquet(project.PASSAGES).with_row_index("passage").with_columns(pl.col("passage").cast(int))
    edges = pl.read_parquet(project.GRAPH / "edges.parquet").with_columns(pl.col("passage").cast(int))
    most = edges.join(passages.join(labelled, on="pid", how="semi"), on="passage").group_by("passage", "pid").len()
    row, pid, _ = most.sort("len", "passage").row(-1)  # of the labelled passages the one that most queries retrieve
    before, after = (np.asarray(open_matrix(project.embeddings(one))[[row]], np.float32) for one in (BASE, SYSTEM))
    *expected, itself = pl.DataFrame(inform.explain(np.array([row]), before)).to_dicts()
    nodes, asked = pl.read_parquet(project.NODES).to_dicts(), labelled.filter(pid=pid)["qid"].to_list()
    queries = [
        {"attention": pytest.approx(attention, abs=1e-6), "labelled": nodes[query]["qid"] in asked}
        | {"text": nodes[query]["text"], "kind": "training"}
        for attention, query in sorted(((one["attention"], one["query"]) for one in expected), reverse=True)
    ]
    app = client()
    found = app.get("/explain", params={"pid": pid}).json()
    assert found == {
        "queries": queries,
        "n_queries": len(queries),
        "attention_to_itself": pytest.approx(itself["attention"], abs=1e-6),
        "gate": pytest.approx(itself["gate"], abs=1e-6),
        "shift": pytest.approx(float(np.linalg.norm(after - before)), abs=2e-3),
    }
    assert len(queries) > 2 and any(one["labelled"] for one in queries)
    assert sum(one["attention"] for one in found["queries"]) + found["attention_to_itself"] == pytest.approx(1)
    monkeypatch.setattr("gnn_encoder.serve.SHOWN", 2)
    assert app.get("/explain", params={"pid": pid}).json() == {**found, "queries": found["queries"][:2]}
    alone = passages.join(edges, on="passage", how="anti")["pid"][0]
    found = app.get("/explain", params={"pid": alone}).json()
    assert (found["queries"], found["n_queries"], found["attention_to_itself"]) == ([], 0, 1)


def test_bounds_and_what_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    app, explaining = client(BASE), client(SYSTEM)
    other = "'gnn_encoder' is not served: take one of dual_encoder"
    for server, path, status, told in (
        (app, "/search", 422, "query: Field required"),
        (app, "/search?query=%20%09", 422, "query: is empty; give it some words"),
        (app, "/search?query=\u200b", 422, "query: is empty; give it some words"),
        (app, f"/search?query={'a' * 1001}", 422, "query: String should have at most 1000 characters"),
        (app, "/search?query=x&k=0", 422, "k: Input should be greater than or equal to 1"),
        (app, "/search?query=x&k=101", 422, "k: Input should be less than or equal to 100"),
        (app, "/search?query=x&system=gnn_encoder", 404, other),
        (app, "/explain?pid=city-2&system=gnn_encoder", 404, other),
        (app, "/explain?pid=city-2", 409, "M_de has no graph: no query takes part in its passages' vectors"),
        (explaining, "/explain?pid=nothing", 409, "no passage has the id 'nothing'"),
    ):
        answer = server.get(path)
        assert (answer.status_code, answer.json()) == (status, {"detail": told})
    assert app.get("/search?query=%ff%00life").status_code == 200  # no text, but bounded
    assert (app.get("/nothing").status_code, app.put("/search").status_code) == (404, 405)
    assert app.get("/docs").status_code == 404  # its scripts would come from elsewhere
    monkeypatch.setattr(Searcher, "answer", lambda self, queries, k: 1 / 0)
    failed = app.get("/search?query=x")
    assert failed.status_code == 500 and "division" not in failed.text


def test_headers_are_safe() -> None:
    app = client(BASE)
    for path in ("/", "/page.js", "/healthz", "/search?query=x", "/search", "/nothing"):
        headers = app.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"


def test_only_known_hosts_may_call() -> None:
    app = client(BASE, hosts=LOOPBACK)
    hosts = {"LocalHost:8000": 200, "127.0.0.1": 200, "[::1]:1": 200, "evil.example:8000": 400, "": 400}
    assert {host: app.get("/systems", headers={"host": host}).status_code for host in hosts} == hosts
