"""What is told of a passage equals what the GNN computes; and what happens when the process dies or hangs."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from fastapi import HTTPException

from gnn_encoder.core.errors import UserError
from gnn_encoder.core.storage.arrays import open_matrix
from gnn_encoder.core.storage.tables import read_column
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.graphs import GraphArtifacts, open_informer
from gnn_encoder.pipeline.opening import load_encoder
from gnn_encoder.pipeline.params import load_params
from gnn_encoder.serving import explainer, explaining
from gnn_encoder.serving.explainer import Explainer
from gnn_encoder.serving.explaining import GraphExplainer

from .conftest import Server


def passage_with_queries() -> tuple[int, str]:
    """The passage that most queries retrieve: its row and id."""
    edges = pl.read_parquet(GraphArtifacts(name="gnn_encoder").edges)
    row = int(edges.group_by("passage").len().sort("len", "passage")["passage"][-1])
    return row, read_column(project.PASSAGES, "pid")[row].as_py()


def test_an_explanation_is_what_the_network_computes(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    params, source, model = load_params(), GraphArtifacts(name="gnn_encoder"), project.gnn("gnn_encoder")
    inform = open_informer(source, model, load_encoder(model / "encoder", params.encoder), params)
    row, pid = passage_with_queries()
    before = np.asarray(open_matrix(project.embeddings("dual_encoder"))[[row]], dtype=np.float32)
    subgraph, heads, gate = inform.attend(np.array([row]), before)
    expected = pl.DataFrame({"query": subgraph.queries[subgraph.edge_query], "attention": heads[:-1].mean(axis=1)})
    expected = expected.sort("attention", descending=True)
    explains = GraphExplainer("gnn_encoder")
    found = explains.explain(pid)
    texts = read_column(source.queries, "text").to_pylist()
    assert found["n_queries"] == len(expected) > 2 and {one["kind"] for one in found["queries"]} == {"training"}
    assert [one["text"] for one in found["queries"]] == [texts[query] for query in expected["query"]]
    assert [one["attention"] for one in found["queries"]] == pytest.approx(expected["attention"].to_list(), abs=1e-6)
    assert found["attention_to_itself"] == pytest.approx(heads[-1].mean(), abs=1e-6)
    assert sum(one["attention"] for one in found["queries"]) + found["attention_to_itself"] == pytest.approx(1)
    assert found["gate"] == pytest.approx(gate[0], abs=1e-6)
    after = np.asarray(open_matrix(project.embeddings("gnn_encoder"))[row], dtype=np.float32)
    assert found["shift"] == pytest.approx(float(np.linalg.norm(after - before[0])), abs=2e-3)
    qrels = pl.read_parquet(project.qrels("train")).filter(pl.col("pid") == pid, pl.col("grade") > 0)
    qids = read_column(source.queries, "qid").to_pylist()
    known = [qids[query] in qrels["qid"].to_list() for query in expected["query"]]
    assert [one["labelled"] for one in found["queries"]] == known and any(known)
    monkeypatch.setattr(explaining, "SHOWN", 2)
    assert explains.explain(pid) == {**found, "queries": found["queries"][:2]}


def test_a_passage_without_queries_attends_to_itself(root: Path) -> None:
    edges = pl.read_parquet(GraphArtifacts(name="gnn_encoder").edges)
    alone = min(set(range(120)) - set(edges["passage"]))
    found = GraphExplainer("gnn_encoder").explain(read_column(project.PASSAGES, "pid")[alone].as_py())
    assert (found["queries"], found["n_queries"], found["attention_to_itself"]) == ([], 0, 1)
    with pytest.raises(UserError, match="no passage has the id 'other'"):
        GraphExplainer("gnn_encoder").explain("other")


ECHO = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"
# Processes that fail: each question makes a mark.
DIES_ONCE = "import os, sys\nif not os.path.exists('died'): open('died', 'w'); sys.exit(9)\n" + ECHO
DIES = "import sys; sys.exit(3)"
HANGS = "import time; time.sleep(60)"


def asked(code: str, n: int, *, together: bool = False) -> list[Any]:
    """What comes of questions to a process that runs some code: an answer, or the status of a refusal."""

    async def told(one: Explainer, number: int) -> Any:
        try:
            return json.loads(await one.explain("gnn_encoder", str(number)))
        except HTTPException as error:
            return error.status_code

    async def main() -> list[Any]:
        one = Explainer((sys.executable, "-c", code), seconds=0.3 if code == HANGS else 20)
        try:
            questions = [told(one, number) for number in range(n)]
            return await asyncio.gather(*questions) if together else [await question for question in questions]
        finally:
            await one.close()

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ECHO, [["gnn_encoder", "0"], ["gnn_encoder", "1"]]),
        (DIES_ONCE, [503, ["gnn_encoder", "1"]]),
        (DIES, [503, 503]),
        (HANGS, [503, 503]),
    ],
)
def test_a_process_that_fails_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, expected: list[Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert asked(code, 2) == expected


def test_few_questions_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explainer, "WAITING", 2)
    assert asked(ECHO, 3, together=True) == [["gnn_encoder", "0"], ["gnn_encoder", "1"], 503]


def test_explanations_over_http(server: Server, built: Path) -> None:
    pid = server.hits(query="milk", k=1)[0]["pid"]
    assert server.get("/explain", pid=pid).json()["attention_to_itself"] > 0
    unknown = server.get("/explain", pid="nothing")
    assert (unknown.status_code, unknown.json()["detail"]) == (409, "no passage has the id 'nothing'")
