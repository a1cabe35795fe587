"""What the worker tells equals what the GNN computes; and what happens when it dies or hangs."""

import asyncio
import os
import signal
import time
from collections.abc import Coroutine
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl
import pytest

from gnn_encoder.core.errors import UserError
from gnn_encoder.core.storage.arrays import open_matrix
from gnn_encoder.core.storage.tables import read_column
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.graphs import GraphArtifacts, open_informer
from gnn_encoder.pipeline.opening import load_encoder
from gnn_encoder.pipeline.params import load_params
from gnn_encoder.serving import explainer
from gnn_encoder.serving.explainer import Explainer
from gnn_encoder.serving.explaining import GraphExplainer, explain
from gnn_encoder.serving.problems import Problem
from gnn_encoder.serving.settings import Limits

from .conftest import Server
from .test_process import children, until

T = TypeVar("T")


def passage_with_queries() -> int:
    """The passage that most queries retrieve."""
    edges = pl.read_parquet(GraphArtifacts(name="gnn_encoder").edges)
    return int(edges.group_by("passage").len().sort("len", "passage")["passage"][-1])


def pid_of(row: int) -> str:
    pid: str = read_column(project.PASSAGES, "pid")[row].as_py()
    return pid


def test_an_explanation_is_what_the_network_computes(root: Path) -> None:
    params, source, model = load_params(), GraphArtifacts(name="gnn_encoder"), project.gnn("gnn_encoder")
    inform = open_informer(source, model, load_encoder(model / "encoder", params.encoder), params)
    row = passage_with_queries()
    before = np.asarray(open_matrix(project.embeddings("dual_encoder"))[[row]], dtype=np.float32)
    expected = pl.DataFrame(inform.explain(np.array([row]), before))
    asked = expected.filter(pl.col("query") >= 0).sort("attention", descending=True)
    found = GraphExplainer("gnn_encoder").explain(row, pid_of(row))
    qids = read_column(source.queries, "qid").to_pylist()
    texts = read_column(source.queries, "text").to_pylist()
    assert found["n_queries"] == len(asked) > 2 and found["attention_of_the_others"] == 0
    assert [one["qid"] for one in found["queries"]] == [qids[query] for query in asked["query"]]
    assert [one["text"] for one in found["queries"]] == [texts[query] for query in asked["query"]]
    assert [one["attention"] for one in found["queries"]] == pytest.approx(asked["attention"].to_list(), abs=1e-6)
    assert found["attention_to_itself"] == pytest.approx(expected["attention"][-1], abs=1e-6)
    assert found["gate"] == pytest.approx(expected["gate"][0], abs=1e-6)
    heads = np.array([one["by_head"] for one in found["queries"]] + [found["attention_to_itself_by_head"]])
    assert heads.shape == (len(asked) + 1, 4) and heads.std(axis=1).max() > 1e-3
    np.testing.assert_allclose(heads.sum(axis=0), 1, atol=1e-5)
    shown = [one["attention"] for one in found["queries"]] + [found["attention_to_itself"]]
    np.testing.assert_allclose(heads.mean(axis=1), shown, atol=1e-6)
    after = np.asarray(open_matrix(project.embeddings("gnn_encoder"))[row], dtype=np.float32)
    assert found["shift"] == pytest.approx(float(np.linalg.norm(after - before[0])), abs=2e-3)
    qrels = pl.read_parquet(project.qrels("train")).filter(pl.col("pid") == pid_of(row), pl.col("grade") > 0)
    labelled = {one["qid"] for one in found["queries"] if one["labelled"]}
    assert labelled == set(qrels["qid"]) & {one["qid"] for one in found["queries"]}
    assert {one["kind"] for one in found["queries"]} == {"training"}


def test_a_passage_without_queries_attends_to_itself(root: Path) -> None:
    edges = pl.read_parquet(GraphArtifacts(name="gnn_encoder").edges)
    alone = min(set(range(120)) - set(edges["passage"]))
    found = GraphExplainer("gnn_encoder").explain(alone, pid_of(alone))
    assert (found["queries"], found["n_queries"]) == ([], 0)
    assert found["attention_to_itself"] == 1 and found["attention_to_itself_by_head"] == [1, 1, 1, 1]


def test_only_the_queries_with_most_attention_are_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = passage_with_queries()
    explainer = GraphExplainer("gnn_encoder")
    every = explainer.explain(row, pid_of(row))
    monkeypatch.setattr("gnn_encoder.serving.explaining.SHOWN", 2)
    some = explainer.explain(row, pid_of(row))
    assert some["queries"] == every["queries"][:2] and some["n_queries"] == every["n_queries"]
    rest = sum(one["attention"] for one in every["queries"][2:])
    assert some["attention_of_the_others"] == pytest.approx(rest, abs=1e-6)


def test_a_project_that_has_changed(root: Path) -> None:
    told = "passage 'other' is not in row 3 of data/prepared/passages.parquet: the project has changed"
    with pytest.raises(UserError, match=told):
        explain("gnn_encoder", 3, "other")


# Processes that fail, in place of the real one.


def dies_once(questions: Any) -> None:
    while True:
        question = questions.recv()
        if len(question) > 1 and not os.path.exists("died"):
            open("died", "w").close()
            os._exit(9)
        questions.send(({"asked": question}, None))


def dies(questions: Any) -> None:
    os._exit(3)


def hangs(questions: Any) -> None:
    while True:
        if len(questions.recv()) > 1:
            time.sleep(60)
        questions.send(({}, None))


def asked(target: Any, n: int = 2, together: bool = False, **limits: float) -> tuple[list[Any], int]:
    """Questions to a process: what came of them, and how many processes were started."""
    started: list[None] = []

    async def main() -> list[Any]:
        bounds = Limits(**{"explain_seconds": 5, "start_seconds": 5} | limits)  # type: ignore[arg-type]
        explainer = Explainer(bounds, started=lambda: started.append(None), target=target)
        questions = [told(explainer.explain("gnn_encoder", row, "p")) for row in range(n)]
        try:
            return [*await asyncio.gather(*questions)] if together else [await one for one in questions]
        finally:
            explainer.close()

    return asyncio.run(main()), len(started)


async def told(question: Coroutine[Any, Any, T]) -> T | tuple[int, str]:
    try:
        return await question
    except Problem as problem:
        return problem.status, problem.name


@pytest.fixture
def forked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes start at once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(explainer, "SPAWN", get_context("fork"))


def test_a_process_that_dies_is_started_again_and_asked_again(forked: None) -> None:
    assert asked(dies_once) == ([{"asked": ("gnn_encoder", 0, "p")}, {"asked": ("gnn_encoder", 1, "p")}], 2)


def test_a_process_that_cannot_answer_is_tried_twice_a_question(forked: None) -> None:
    assert asked(dies) == ([(503, "no-explanation")] * 2, 4)


def test_a_process_that_hangs_is_ended_in_time(forked: None) -> None:
    assert asked(hangs, explain_seconds=0.3) == ([(504, "explanation-timeout")] * 2, 2)


def test_few_questions_may_wait(forked: None) -> None:
    found, _ = asked(hangs, 3, together=True, explanations=2, explain_seconds=0.5)
    assert found == [(504, "explanation-timeout")] * 2 + [(503, "busy")]


def test_explain_over_http_survives_the_worker_s_death(server: Server, built: Path) -> None:
    hit = server.get("/search", query="milk", k=1).json()["hits"][0]
    first = server.get("/explain", query="milk", pid=hit["pid"]).json()
    assert first["after"]["system"] == "gnn_encoder" and first["before"]["system"] == "dual_encoder"
    assert (first["after"]["rank"], first["after"]["score"]) == (1, hit["score"]) and first["note"] is None
    assert first["graph"]["attention_to_itself"] > 0
    worker = children(server)[0]
    os.kill(worker, signal.SIGKILL)
    until(lambda: worker not in children(server))
    assert server.get("/explain", query="milk", pid=hit["pid"]).json() == first
    assert server.get("/explain", query="milk", pid="nothing").status_code == 404
