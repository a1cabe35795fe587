"""Vectors and edges of added passages against those that a build gives them."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from gnn_encoder.base.judgements import relevant_pairs
from gnn_encoder.base.matrix import open_matrix
from gnn_encoder.growing import commands
from gnn_encoder.growing.joining import GraphJoiner
from gnn_encoder.growing.versions import current
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.text.encoder import DualEncoder

from ..built import BASE, KINDS, SYSTEM

Projects = Callable[[str], Params]
NEW = [
    {"_id": "n1", "title": "Bread", "text": "A baker proofs dough in a warm oven before the loaf is baked."},
    {"_id": "n2", "title": "", "text": "balls of ice and dust"},
    {"_id": "n3", "title": "", "text": "Octopuses change the colour of their skin to hide."},
]


def write(rows: list[dict[str, str]]) -> Path:
    """Passages as a file to add."""
    Path("new.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Path("new.jsonl")


def vectors(system: str) -> dict[str, np.ndarray]:
    """What is searched, by pid."""
    version = current(system)
    return dict(zip(pl.read_parquet(version.passages)["pid"], open_matrix(version.embeddings), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_passages_that_are_added_again_are_as_in_the_build(
    kind: str, project_of: Projects, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their vectors and their edges."""
    monkeypatch.setattr(commands, "AT_A_TIME", 7)
    params, passages, expected = project_of(kind), pl.read_parquet(project.PASSAGES), vectors(SYSTEM)
    some, edges = passages[::2], pl.read_parquet(project.graph(SYSTEM) / "edges.parquet")
    edges = edges.filter(pl.col("passage") % 2 == 0)
    commands.delete(SYSTEM, some["pid"])
    commands.add(SYSTEM, write(some.rename({"pid": "_id"}).to_dicts()))
    found = vectors(SYSTEM)
    assert found.keys() == expected.keys()
    for pid in expected:
        np.testing.assert_allclose(found[pid], expected[pid], atol=2e-5)
    if kind == "cross_encoder":  # the others leave edges out afterwards
        joiner = GraphJoiner(SYSTEM, params)
        joined = joiner.edges_of(joiner.built(some["pid"]), joiner.embed(some))
        assert set(joined.select("query", pl.col("passage") * 2).iter_rows()) == set(
            edges.select("query", "passage").iter_rows()
        )


def test_new_passages(project_of: Projects) -> None:
    """By M_de, they have edges to queries whose last passage they beat, unless a query is labelled with all of its."""
    params = project_of("labels")
    encoder = DualEncoder.load(project.encoder(BASE), precision="fp32").for_inference()
    asked = encoder.embed_queries(pl.read_parquet(project.queries("train"))["text"].to_list())
    joiner, new = GraphJoiner(SYSTEM, params), pl.DataFrame(NEW).rename({"_id": "pid"})
    h_p = joiner.embed(new)
    last = pl.read_parquet(project.graph(SYSTEM) / "edges.parquet").group_by("query", maintain_order=True).last()
    pairs = relevant_pairs(project.queries("train"), project.qrels("train"), project.PASSAGES)
    closed = last.join(pairs, on=["query", "passage"], how="semi")["query"].to_list()
    expected = {
        (query, passage)
        for query, needed in enumerate(last["score"])
        for passage in range(len(NEW))
        if asked[query] @ h_p[passage] > needed and query not in closed
    }
    assert (
        set(joiner.edges_of(joiner.built(new["pid"]), h_p).select("query", "passage").iter_rows()) == expected
        and expected
    )
    commands.add(BASE, write(NEW))
    found = encoder.embed_queries([NEW[1]["text"]])[0]  # both sides are shared, the text is short enough for both
    np.testing.assert_allclose(vectors(BASE)["n2"], found, atol=1e-5)
    settings = project.encoder(BASE) / "dual_encoder.json"
    settings.write_text(settings.read_text().replace('"passage_length": ', '"passage_length": 1'))
    for system in (BASE, SYSTEM):
        with pytest.raises(ValueError, match="data/embeddings/dual_encoder: another model than the present"):
            commands.add(system, write(NEW))
