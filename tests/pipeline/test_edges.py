"""Graphs around the main one take its features for what both have: the same tables, fewer pairs through M_ce."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from gnn_encoder import edges as module
from gnn_encoder.core import project
from gnn_encoder.core.params import load_params
from gnn_encoder.core.project import GNNSystem
from gnn_encoder.graph.edges import embed_graph

TABLES = ("edges", "query_loops", "passage_loops")


@pytest.mark.parametrize("name", project.WIDER_GRAPHS)
def test_what_both_graphs_have_is_taken(
    name: str, reproduced: tuple[Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(reproduced[0].folder)
    params = load_params()
    system, main = (project.gnn_system(one, params) for one in (name, "gnn_encoder"))
    embed_graph(system, tmp_path / "alone", params)
    known: dict[str, NDArray[Any]] = {}
    embed_pairs = module.embed_pairs

    def spied(*arguments: Any, **named: Any) -> None:
        known[arguments[2].name] = named["known"].rows >= 0
        embed_pairs(*arguments, **named)

    monkeypatch.setattr(module, "embed_pairs", spied)
    embed_graph(system, tmp_path / "taken", params, other=main)
    for table in TABLES:
        alone, taken = (read(tmp_path / how / table) for how in ("alone", "taken"))
        assert taken.drop("feature").equals(alone.drop("feature"))
        np.testing.assert_allclose(taken["feature"].to_numpy(), alone["feature"].to_numpy(), atol=4e-3)
        there = set(listed(main, table))
        assert known[table].tolist() == [one in there for one in listed(system, table)]
        assert known[table].any()


def read(folder: Path) -> pl.DataFrame:
    return pl.concat([pl.read_parquet(part) for part in sorted(folder.glob("*.parquet"))])


def listed(system: GNNSystem, table: str) -> list[Any]:
    """What a graph's features are of, by the ids of questions and passages."""
    qids = pl.read_parquet(system.nodes / "questions.parquet")["qid"]
    edges = pl.read_parquet(system.graph / "edges.parquet")
    if table == "query_loops":
        return qids.to_list()
    if table == "passage_loops":
        return edges["passage"].unique().sort().to_list()
    return list(zip(qids.gather(edges["query"]), edges["passage"], strict=True))
