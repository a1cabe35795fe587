"""The evidence of the tiny experiment: it agrees with the systems that it is about, and with itself."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml
from polars.testing import assert_frame_equal

from gnn_encoder.evidence import trials
from gnn_encoder.evidence.rank_one import describe_cases
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.graphs import GraphArtifacts
from gnn_encoder.pipeline.params import load_params


@pytest.fixture(scope="module")
def folder(reproduced: tuple[Any, Any]) -> Path:
    found: Path = reproduced[0].folder
    return found


def values(folder: Path, name: str) -> pl.DataFrame:
    return pl.read_parquet(folder / "data" / "trials" / name / "values.parquet")


def metrics(folder: Path, name: str) -> Any:
    return json.loads((folder / "metrics" / "evidence" / f"{name}.json").read_text())


@pytest.mark.parametrize(("ablation", "system"), [("full", "gnn_encoder"), ("no_gnn", "no_gnn")])
def test_the_first_seed_is_the_system_of_the_pipeline(folder: Path, ablation: str, system: str) -> None:
    """Another path to the same figures: the pipeline encodes, indexes and searches in stages of their own."""
    mine = values(folder, ablation).filter(seed=7).drop("seed")
    theirs = pl.read_parquet(folder / "data" / "measures" / "gnn_encoder" / system / "values.parquet")
    both = mine.join(theirs, on=["split", "qid", "measure"], suffix="_of_system", validate="1:1")
    assert len(both) == len(mine) == 2 * 15 * 2
    assert both["value"].to_list() == both["value_of_system"].to_list()


def test_every_trial_has_every_seed_and_query(folder: Path) -> None:
    trials = yaml.safe_load((folder / "params.yaml").read_text())["evidence"]["trials"]
    assert list(trials) == ["full", "no_mgt", "no_gnn", "k_2", "k_8", "beta_50"]
    assert sorted(path.name for path in (folder / "data" / "trials").iterdir()) == sorted(trials)
    for name in trials:
        found = values(folder, name)
        assert found.columns == ["seed", "split", "qid", "measure", "value"]
        counted = found.group_by("seed", "split", "measure").len()
        assert counted["len"].to_list() == [15] * 8, "two seeds, splits and measures"
        assert found["seed"].unique().sort().to_list() == [7, 8]


def test_a_graph_with_fewer_passages_is_the_widest_one_cut(folder: Path) -> None:
    data = folder / "data"
    own, widest = (pl.read_parquet(data / "graph" / name / "edges.parquet") for name in ("gnn_encoder", "widest"))
    assert own["rank"].max() == 4 and widest["rank"].max() == 7
    assert widest.filter(pl.col("rank") < 5).equals(own)


@pytest.mark.parametrize("name", ["full", "no_mgt"])
def test_attention_of_every_edge(folder: Path, name: str) -> None:
    found = pl.read_parquet(folder / "data" / "trials" / name / "attention.parquet")
    edges = pl.read_parquet(folder / "data" / "graph" / "gnn_encoder" / "edges.parquet")
    asked = found.filter(pl.col("query") >= 0).select("query", "passage").sort("query", "passage")
    assert asked.equals(edges.select("query", "passage").sort("query", "passage"))
    sums = found.group_by("passage").agg(pl.col("attention").sum(), (pl.col("query") < 0).sum().alias("itself"))
    np.testing.assert_allclose(sums["attention"], 1.0, atol=1e-5)
    assert sums["itself"].to_list() == [1] * edges["passage"].n_unique()
    assert found["gate"].is_between(0, 1).all() and found["attention"].is_between(0, 1).all()


def test_attention_is_written_some_passages_at_a_time(
    stages: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(stages.folder)
    monkeypatch.setattr(trials, "PASSAGES_AT_A_TIME", 7)
    source, model, file = GraphArtifacts(name="gnn_encoder"), project.gnn("gnn_encoder"), tmp_path / "attention.parquet"
    trials._write_attention(source, load_params(), model, file)
    assert_frame_equal(pl.read_parquet(file), pl.read_parquet("data/trials/full/attention.parquet"))


def test_attention_side_by_side(folder: Path) -> None:
    table = pl.read_parquet(folder / "data" / "evidence" / "attention.parquet")
    prepared = folder / "data" / "prepared"
    queries = pl.read_parquet(prepared / "queries" / "train.parquet").with_row_index("query")
    passages = pl.read_parquet(prepared / "passages.parquet").with_row_index("passage")
    qrels = pl.read_parquet(prepared / "qrels" / "train.parquet").filter(pl.col("grade") > 0)
    labelled = set(qrels.join(queries, on="qid").join(passages, on="pid").select("query", "passage").rows())
    assert all(((row["query"], row["passage"]) in labelled) == row["labelled"] for row in table.iter_rows(named=True))
    for rows in table.partition_by("passage"):
        scores = rows.filter("labelled")["score"]
        potential = rows.filter(~pl.col("labelled") & (pl.col("score") >= scores.min()))
        assert rows.filter(kind="potential").equals(potential)
    shares = metrics(folder, "attention")
    assert shares["labelled"]["with"]["passages"] == shares["labelled"]["without"]["passages"] > 0


def test_means_and_differences_come_from_the_values(folder: Path) -> None:
    written = metrics(folder, "ablations")["test"]
    assert list(written["means"]["RR@10"]) == ["full", "no_mgt", "no_gnn"]
    for name, mean in written["means"]["RR@10"].items():
        own = values(folder, name).filter(split="test", measure="RR@10")["value"].mean()
        assert mean["mean"] == pytest.approx(own) and mean["low"] <= mean["mean"] <= mean["high"]
    difference = written["against"]["full"]["no_gnn"]
    means = written["means"]["RR@10"]
    assert difference["difference"] == pytest.approx(means["no_gnn"]["mean"] - means["full"]["mean"])
    assert list(written["against"]["no_gnn"]) == ["no_mgt"]


def test_sweeps_have_the_main_system_among_them(folder: Path) -> None:
    full = metrics(folder, "ablations")["dev"]["means"]["R@5"]["full"]
    for kind, own, others in (("k", "5", ["2", "8"]), ("beta", "0.25", ["0.5"])):
        found = metrics(folder, kind)["dev"]
        assert list(found["means"]["R@5"]) == [own, *others]
        assert found["means"]["R@5"][own]["mean"] == full["mean"]
        assert list(found["against"]) == [own]


def test_cases(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the tiny experiment, and, since nothing is won there, of a run of what is relevant in the system's place."""
    counts, cases = metrics(folder, "cases"), json.loads((folder / "data" / "evidence" / "cases.json").read_text())
    assert len(cases) == min(3, counts["won_at_rank_1"])
    dev = pl.read_parquet(folder / "data" / "measures" / "gnn_encoder" / "gnn_encoder" / "values.parquet")
    first = dev.filter(split="dev", measure="RR@10", value=1.0)["qid"]
    plain = pl.read_parquet(folder / "data" / "measures" / "gnn_encoder" / "dual_encoder" / "values.parquet")
    there = plain.filter(split="dev", measure="RR@10", value=1.0)["qid"]
    assert counts["won_at_rank_1"] == len(set(first) - set(there))
    assert counts["lost_at_rank_1"] == len(set(there) - set(first))
    monkeypatch.chdir(folder)
    relevant = dict(pl.read_parquet(project.qrels("dev")).filter(pl.col("grade") > 0).select("qid", "pid").rows())
    run, place = tmp_path / "run.trec", project.run_file
    run.write_text("".join(f"{qid} Q0 {pid} 1 1 t\n" for qid, pid in relevant.items()))
    monkeypatch.setattr(project, "run_file", lambda name, split: run if name == "gnn_encoder" else place(name, split))
    params, won = load_params(), 15 - len(there)
    all_of_them = {"evidence": params.evidence.model_copy(update={"cases": won})}
    counts, cases = describe_cases(params.model_copy(update=all_of_them))
    assert counts == {"queries": 15, "won_at_rank_1": won, "lost_at_rank_1": 0} and len(cases) == won
    assert any(case["informed_by"] for case in cases)
    for case in cases:
        assert relevant[case["qid"]] == case["pid"] != case["dual_encoder_first"]
        total = case["attention_to_itself"] + sum(one["attention"] for one in case["informed_by"])
        assert total == pytest.approx(1, abs=1e-5)
