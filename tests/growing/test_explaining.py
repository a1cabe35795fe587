"""What is told of passages that were added, or made anew, since the build; and of logged queries."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from gnn_encoder.core.errors import UserError
from gnn_encoder.core.judgements import relevant_pairs
from gnn_encoder.core.storage.tables import read_column
from gnn_encoder.graph.artifacts import GraphArtifacts
from gnn_encoder.growing.commands import add, delete, log, open_overlay
from gnn_encoder.growing.compact import compact
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.serving.explaining import GraphExplainer

from .projects import SYSTEM

LOGGED = "which cheese do people on cyprus fry"


def passage_of(row: int) -> dict[str, str]:
    """A passage of the build, as a line of a corpus."""
    title, text, pid = (read_column(project.PASSAGES, name)[row].as_py() for name in ("title", "text", "pid"))
    return {"_id": pid, "title": title, "text": text}


def asked_most() -> int:
    """The passage of the build that most queries retrieve, of those that are retrieved by one that is labelled so."""
    edges = pl.read_parquet(GraphArtifacts(name=SYSTEM).edges).select("query", "passage")
    pairs = relevant_pairs(project.queries("train"), project.qrels("train"), project.PASSAGES)
    labelled = edges.join(pairs, on=["query", "passage"], how="semi")["passage"]
    counted = edges.filter(pl.col("passage").is_in(labelled.implode())).group_by("passage").len()
    return int(counted.sort("len", "passage")["passage"][-1])


def add_passage(line: dict[str, str]) -> int:
    """The row that it gets."""
    Path("new.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    add(SYSTEM, Path("new.jsonl"))
    return row_of(line["_id"])


def row_of(pid: str) -> int:
    return int(open_overlay(SYSTEM).find(pl.Series([pid]))["row"][0])


def numbers(told: dict[str, Any]) -> list[float]:
    shares = [one["attention"] for one in told["queries"]]
    return [*shares, told["attention_to_itself"], told["attention_of_the_others"], told["gate"], told["shift"]]


@pytest.mark.parametrize("kind", ["product", "cross_encoder", "plain_edges", "generated"])
def test_a_passage_that_is_added_again_is_explained_as_in_the_build(
    project_of: Callable[[str], Params], kind: str
) -> None:
    """Its edges are those of the build, so that what the segment holds is what the network computes."""
    project_of(kind)
    built = asked_most()
    line = passage_of(built)
    expected = GraphExplainer(SYSTEM).explain(built, line["_id"])
    row = add_passage(line)
    assert row == 120
    found = GraphExplainer(SYSTEM).explain(row, line["_id"])
    names = [
        [(one["qid"], one["text"], one["kind"], one["labelled"]) for one in of["queries"]] for of in (found, expected)
    ]
    assert names[0] == names[1] and found["n_queries"] == expected["n_queries"] > 1
    assert any(one["labelled"] for one in found["queries"]) or kind == "plain_edges"  # which keeps two queries each
    assert numbers(found) == pytest.approx(numbers(expected), abs=2e-4)
    assert expected["shift"] > 0.01 and len(expected["attention_to_itself_by_head"]) == 4
    assert [one["by_head"] for one in found["queries"]] == [[]] * len(found["queries"])
    assert found["attention_to_itself_by_head"] == []


def test_a_logged_query_is_among_those_that_shaped_a_passage(project_of: Callable[[str], Params]) -> None:
    project_of("product")
    line = passage_of(asked_most())
    before = GraphExplainer(SYSTEM).explain(asked_most(), line["_id"])
    Path("queries.tsv").write_text(f"{LOGGED}\t{line['_id']}\n", encoding="utf-8")
    log(SYSTEM, Path("queries.tsv"))
    row = row_of(line["_id"])
    found = GraphExplainer(SYSTEM).explain(row, line["_id"])
    (logged,) = [one for one in found["queries"] if one["kind"] == "logged"]
    assert (logged["qid"], logged["text"], logged["labelled"]) == (None, LOGGED, True) and logged["attention"] > 0
    assert {one["qid"] for one in found["queries"]} == {one["qid"] for one in before["queries"]} | {None}
    assert sum(numbers(found)[:-2]) == pytest.approx(1, abs=1e-5)
    order = [one["attention"] for one in found["queries"]]
    assert order == sorted(order, reverse=True)
    compact(SYSTEM, whole=True)
    row = row_of(line["_id"])
    assert GraphExplainer(SYSTEM).explain(row, line["_id"]) == found


def test_an_open_explainer_sees_what_comes_later(project_of: Callable[[str], Params]) -> None:
    project_of("product")
    explainer = GraphExplainer(SYSTEM)
    with pytest.raises(UserError, match=r"passage 'new' is not in row 120 of data/grown/gnn_encoder/manifest.json"):
        explainer.explain(120, "new")
    row = add_passage({"_id": "new", "title": "", "text": "Halloumi is a cheese made of the milk of goats and sheep."})
    found = explainer.explain(row, "new")
    assert found["n_queries"] == len(found["queries"]) and found["shift"] > 0
    with pytest.raises(
        UserError, match=r"passage 'other' is not in row 120 of .*/000001/passages.parquet: the project"
    ):
        explainer.explain(row, "other")
    delete(SYSTEM, ["new"])
    other = add_passage({"_id": "newer", "title": "", "text": "Dublin is a city."})
    assert np.isfinite(numbers(explainer.explain(other, "newer"))).all()
