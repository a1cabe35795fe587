"""Vectors and edges of added passages against those that a build gives them."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from gnn_encoder.core.judgements import relevant_pairs
from gnn_encoder.core.storage.arrays import open_matrix
from gnn_encoder.growing import commands
from gnn_encoder.growing.joining import GraphJoiner
from gnn_encoder.growing.versions import current
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.serving.explaining import GraphExplainer

from .conftest import BASE, KINDS, SYSTEM
from .small import jsonl

Copies = Callable[[str], Params]
NEW = [
    {"_id": "n1", "title": "Bread", "text": "A baker proofs dough in a warm oven before the loaf is baked."},
    {"_id": "n2", "text": "Comets are balls of ice and dust that grow a tail near the sun."},
    {"_id": "n3", "title": "", "text": "Octopuses change the colour of their skin to hide."},
]


def write(rows: list[dict[str, str]]) -> Path:
    Path("new.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Path("new.jsonl")


def table_of(rows: list[dict[str, str]]) -> pl.DataFrame:
    return pl.DataFrame([{"pid": row["_id"], "title": row.get("title", ""), "text": row["text"]} for row in rows])


def vectors(system: str) -> dict[str, np.ndarray]:
    """What is searched, by pid."""
    version = current(system)
    return dict(zip(pl.read_parquet(version.passages)["pid"], open_matrix(version.embeddings), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_passages_that_are_added_again_get_the_vectors_of_the_build(kind: str, project_of: Copies) -> None:
    params = project_of(kind)
    passages, expected = pl.read_parquet(project.PASSAGES), vectors(SYSTEM)
    some = passages[::2]
    commands.delete(SYSTEM, some["pid"])
    commands.add(SYSTEM, write(some.rename({"pid": "_id"}).to_dicts()))
    found = vectors(SYSTEM)
    assert found.keys() == expected.keys()
    for pid in expected:
        np.testing.assert_allclose(found[pid], expected[pid], atol=2e-5)
    if kind not in ("plain_edges", "without_labels"):  # which leave edges out afterwards
        edges = GraphJoiner(SYSTEM, params).join(some).edges
        built = pl.read_parquet(project.graph(SYSTEM) / "edges.parquet")
        assert set(edges.select("query", pl.col("passage") * 2).iter_rows()) == set(
            built.filter(pl.col("passage") % 2 == 0).select("query", "passage").iter_rows()
        )


def test_the_edges_of_a_new_passage_are_the_queries_whose_last_passage_it_beats(project_of: Copies) -> None:
    """By M_de, and unless the query is labelled with all its passages: these keep their places."""
    params = project_of("product")
    encoder = DualEncoder.load(project.encoder(BASE), precision="fp32").for_inference()
    asked = encoder.embed_queries(pl.read_parquet(project.queries("train"))["text"].to_list())
    joined = GraphJoiner(SYSTEM, params).join(table_of(NEW))
    last = pl.read_parquet(project.graph(SYSTEM) / "edges.parquet").group_by("query", maintain_order=True).last()
    pairs = relevant_pairs(project.queries("train"), project.qrels("train"), project.PASSAGES)
    closed = last.join(pairs, on=["query", "passage"], how="semi")["query"].to_list()
    expected = {
        (query, passage)
        for query, needed in enumerate(last["score"])
        for passage in range(len(NEW))
        if asked[query] @ joined.h_p[passage] > needed and query not in closed
    }
    assert set(joined.edges.select("query", "passage").iter_rows()) == expected and expected


@pytest.mark.parametrize("kind", ["cross_encoder", "plain_edges", "generated"])
def test_a_passage_that_is_added_again_is_explained_as_in_the_build(project_of: Copies, kind: str) -> None:
    project_of(kind)
    edges = pl.read_parquet(project.graph(SYSTEM) / "edges.parquet")
    row = int(edges.group_by("passage").len().sort("len", "passage")["passage"][-1])
    passage = pl.read_parquet(project.PASSAGES)[row].to_dicts()[0]
    expected = GraphExplainer(SYSTEM).explain(row, passage["pid"])
    commands.add(SYSTEM, write([passage | {"_id": passage["pid"]}]))
    found = GraphExplainer(SYSTEM).explain(119, passage["pid"])
    for name in ("attention_to_itself", "attention_of_the_others", "gate", "shift"):
        assert found[name] == pytest.approx(expected[name], abs=2e-4)
    assert found["n_queries"] == expected["n_queries"] > 1 and expected["shift"] > 0.01
    for one, other in zip(found["queries"], expected["queries"], strict=True):
        assert [one[name] for name in ("qid", "text", "kind", "labelled")] == [
            other[name] for name in ("qid", "text", "kind", "labelled")
        ]
        np.testing.assert_allclose(
            [one["attention"], *one["by_head"]], [other["attention"], *other["by_head"]], atol=2e-4
        )
    kept = pl.read_parquet(current(SYSTEM).passages)["pid"][0]
    assert GraphExplainer(SYSTEM).explain(0, kept)["gate"] > 0  # it is told by its row in the build
    with pytest.raises(ValueError, match="is not in row 3 of data/versions/gnn_encoder/000001/passages.parquet"):
        GraphExplainer(SYSTEM).explain(3, passage["pid"])


def test_a_dual_encoder(project_of: Copies) -> None:
    project_of("product")
    new = {"n1": "bread in a warm oven", "n2": "balls of ice and dust"}
    commands.add(BASE, jsonl(Path("new.jsonl"), new))
    encoder = DualEncoder.load(project.encoder(BASE), precision="fp32").for_inference()
    expected = encoder.embed_queries(list(new.values()))  # shared, and shorter than both limits
    np.testing.assert_allclose([vectors(BASE)[pid] for pid in new], expected, atol=1e-5)


def test_a_model_that_was_trained_since(project_of: Copies) -> None:
    project_of("product")
    config = project.encoder(BASE) / "dual_encoder.json"
    changed = config.read_text().replace('"query_length": 16', '"query_length": 12')
    config.unlink()  # it is a link
    config.write_text(changed)
    for system in (BASE, SYSTEM):
        with pytest.raises(
            ValueError, match="data/embeddings/dual_encoder: another model than the present one made it"
        ):
            commands.add(system, write(NEW))
