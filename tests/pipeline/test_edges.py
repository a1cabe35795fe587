"""Graphs around the main one take its features for what both have: the same tables, fewer pairs through M_ce."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from gnn_encoder.graph import edges as module
from gnn_encoder.graph.edges import embed_graph
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.graphs import GraphArtifacts
from gnn_encoder.pipeline.opening import open_passages, open_queries
from gnn_encoder.pipeline.params import load_params
from gnn_encoder.pipeline.stage import read_stages
from gnn_encoder.text.cross_encoder import CrossEncoder

from ..project import ROOT

TABLES = ("edges", "query_loops", "passage_loops")
AROUND_THE_MAIN_ONE = ("gnn_encoder_generated",)


def test_graphs_around_the_main_one() -> None:
    stages = [one for one in read_stages(ROOT) if one.name == "embed_edges" and one.key in AROUND_THE_MAIN_ONE]
    assert [one.item["around"] for one in stages] == ["gnn_encoder"] * len(AROUND_THE_MAIN_ONE)


@pytest.mark.parametrize("name", AROUND_THE_MAIN_ONE)
def test_what_both_graphs_have_is_taken(
    name: str, reproduced: tuple[Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(reproduced[0].folder)
    params = load_params()
    system, main = GraphArtifacts(name=name), GraphArtifacts(name="gnn_encoder")
    model = CrossEncoder.load(project.CROSS_ENCODER, precision=params.encoder.precision).for_inference()
    texts = open_queries(system.queries, model), open_passages(model)
    limits = {"max_length": params.train_cross_encoder.max_length, "batch_tokens": params.encoder.batch_tokens}
    inputs = (model, system.open(), system.nodes(), *texts)
    embed_graph(*inputs, tmp_path / "alone", **limits)
    known: dict[str, NDArray[Any]] = {}
    embed_pairs = module.embed_pairs

    def spied(*arguments: Any, **named: Any) -> None:
        known[arguments[2].name] = named["known"].rows >= 0
        embed_pairs(*arguments, **named)

    monkeypatch.setattr(module, "embed_pairs", spied)
    embed_graph(*inputs, tmp_path / "taken", **limits, around=main.embedded())
    for table in TABLES:
        alone, taken = (read(tmp_path / how / table) for how in ("alone", "taken"))
        assert taken.drop("feature").equals(alone.drop("feature"))
        np.testing.assert_allclose(taken["feature"].to_numpy(), alone["feature"].to_numpy(), atol=4e-3)
        there = set(listed(main, table))
        assert known[table].tolist() == [one in there for one in listed(system, table)]
        assert known[table].any()


def read(folder: Path) -> pl.DataFrame:
    return pl.concat([pl.read_parquet(part) for part in sorted(folder.glob("*.parquet"))])


def listed(graph: GraphArtifacts, table: str) -> list[Any]:
    """What a graph's features are of, by the ids of queries and passages."""
    qids = pl.read_parquet(graph.queries)["qid"]
    edges = pl.read_parquet(graph.edges)
    if table == "query_loops":
        return qids.to_list()
    if table == "passage_loops":
        return edges["passage"].unique().sort().to_list()
    return list(zip(qids.gather(edges["query"]), edges["passage"], strict=True))
