"""What is told of a passage equals what the GNN computes."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from gnn_encoder.base.matrix import open_matrix
from gnn_encoder.base.tables import read_column
from gnn_encoder.gnn.graph import queries_of
from gnn_encoder.gnn.neighbourhood import graph_encoder, open_informer
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import load_params
from gnn_encoder.serve import GraphExplainer

from .conftest import Server


def test_an_explanation_is_what_the_network_computes(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    params, system, model = load_params(), "gnn_encoder", project.gnn("gnn_encoder")
    inform = open_informer(system, model, graph_encoder(system, model, params)[0], params)
    labelled = pl.read_parquet(project.qrels("train")).filter(pl.col("grade") > 0)
    rows = pl.read_parquet(project.PASSAGES).with_row_index("passage").join(labelled, on="pid", how="semi")["passage"]
    edges = pl.read_parquet(project.graph(system) / "edges.parquet").filter(pl.col("passage").is_in(rows.implode()))
    row = int(edges.group_by("passage").len().sort("len", "passage")["passage"][-1])  # that most queries retrieve
    pid = read_column(project.PASSAGES, "pid")[row].as_py()
    before = np.asarray(open_matrix(project.embeddings("dual_encoder"))[[row]], dtype=np.float32)
    told = pl.DataFrame(inform.explain(np.array([row]), before))
    expected = told.filter(pl.col("query") >= 0).sort("attention", descending=True)
    (itself,) = told.filter(query=-1).iter_rows(named=True)
    explains = GraphExplainer("gnn_encoder")
    found = explains.explain(pid)
    texts = read_column(queries_of(system), "text").to_pylist()
    assert found["n_queries"] == len(expected) > 2 and {one["kind"] for one in found["queries"]} == {"training"}
    assert [one["text"] for one in found["queries"]] == [texts[query] for query in expected["query"]]
    assert [one["attention"] for one in found["queries"]] == pytest.approx(expected["attention"].to_list(), abs=1e-6)
    assert found["attention_to_itself"] == pytest.approx(itself["attention"], abs=1e-6)
    assert sum(one["attention"] for one in found["queries"]) + found["attention_to_itself"] == pytest.approx(1)
    assert found["gate"] == pytest.approx(itself["gate"], abs=1e-6)
    after = np.asarray(open_matrix(project.embeddings("gnn_encoder"))[row], dtype=np.float32)
    assert found["shift"] == pytest.approx(float(np.linalg.norm(after - before[0])), abs=2e-3)
    asked = labelled.filter(pid=pid)["qid"].to_list()
    qids = read_column(queries_of(system), "qid").to_pylist()
    known = [qids[query] in asked for query in expected["query"]]
    assert [one["labelled"] for one in found["queries"]] == known and any(known)
    monkeypatch.setattr("gnn_encoder.serve.SHOWN", 2)
    assert explains.explain(pid) == {**found, "queries": found["queries"][:2]}


def test_a_passage_without_queries_attends_to_itself(root: Path, server: Server) -> None:
    edges = pl.read_parquet(project.graph("gnn_encoder") / "edges.parquet")
    alone = min(set(range(120)) - set(edges["passage"]))
    found = server.get("/explain", pid=read_column(project.PASSAGES, "pid")[alone].as_py()).json()
    assert (found["queries"], found["n_queries"], found["attention_to_itself"]) == ([], 0, 1)
    unknown = server.get("/explain", pid="nothing")
    assert (unknown.status_code, unknown.json()["detail"]) == (409, "no passage has the id 'nothing'")
