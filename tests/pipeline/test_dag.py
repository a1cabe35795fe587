"""The whole DAG through real DVC on the tiny corpus and model: what it makes, and what a change makes run again."""

import gzip
import json
import math
import re
from collections.abc import Callable
from typing import Any

import faiss
import numpy as np
import polars as pl
import pytest
import yaml

SYSTEMS = ("bm25", "retriever", "dual_encoder", "no_gnn", "gnn_encoder")
DENSE = SYSTEMS[1:]
STAGE_STARTS = re.compile(r"Running stage '([^']+)'")
OUTPUTS = ("data", "metrics", "plots")


def started(ran: Any) -> list[str]:
    return STAGE_STARTS.findall(ran.output)


@pytest.fixture(scope="module")
def project(reproduced: tuple[Any, Any]) -> Any:
    return reproduced[0]


@pytest.fixture(scope="module")
def params(project: Any) -> dict[str, Any]:
    values: dict[str, Any] = yaml.safe_load((project.folder / "params.yaml").read_text())
    return values


# --- what it makes ----------------------------------------------------------------------------------------------------


def test_every_stage_ran_once(reproduced: tuple[Any, Any]) -> None:
    project, ran = reproduced
    every = yaml.safe_load((project.folder / "dvc.lock").read_text())["stages"]
    assert sorted(started(ran)) == sorted(every)
    assert {f"{name}@{system}" for name in ("cache_passages", "build_index", "retrieve") for system in DENSE} - set(
        every
    ) == {"cache_passages@gnn_encoder"}, "encode_corpus makes GNN-encoder's matrix"


def test_nothing_is_left_in_the_work_tree(project: Any) -> None:
    assert project.git("status", "--porcelain") == ""
    caches = {"tokens", "unpacked_features"}
    files = [path for path in (project.folder / ".scratch").rglob("*") if path.is_file()]
    left = [path for path in files if not caches.intersection(path.parts)]
    assert left == []


@pytest.mark.parametrize("split", ["dev", "test"])
def test_metrics_of_every_system(project: Any, params: dict[str, Any], split: str) -> None:
    metrics = json.loads((project.folder / "metrics" / f"{split}.json").read_text())
    assert tuple(metrics) == SYSTEMS
    for values in metrics.values():
        assert set(values) == set(params["evaluate"]["measures"])
        assert all(0 <= value <= 1 for value in values.values())
    assert metrics["bm25"]["Success@20"] > 0.8, "questions of the tiny corpus share words with their passages"


@pytest.mark.parametrize("split", ["dev", "test"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_runs_are_valid_trec(project: Any, params: dict[str, Any], system: str, split: str) -> None:
    folder = project.folder / "data"
    file = (folder / "bm25" if system == "bm25" else folder / "runs" / system) / f"{split}.trec.gz"
    rows = [line.split(" ") for line in gzip.open(file, "rt").read().splitlines()]
    assert {len(row) for row in rows} == {6}
    questions = pl.read_parquet(folder / "prepared" / "queries" / f"{split}.parquet")["qid"]
    corpus = set(pl.read_parquet(folder / "prepared" / "passages.parquet")["pid"])
    found: dict[str, list[list[str]]] = {}
    for row in rows:
        assert (row[1], row[5]) == ("Q0", system)
        found.setdefault(row[0], []).append(row)
    assert set(found) == set(questions)
    depth = params["retrieve"]["depth"]
    for ranking in found.values():
        assert [int(row[3]) for row in ranking] == list(range(1, len(ranking) + 1))
        scores = [float(row[4]) for row in ranking]
        assert scores == sorted(scores, reverse=True) and all(map(math.isfinite, scores))
        pids = [row[2] for row in ranking]
        assert len(set(pids)) == len(pids) <= depth and corpus.issuperset(pids)
        assert system == "bm25" or len(pids) == depth


def test_per_query_values_average_to_the_metrics(project: Any) -> None:
    values = pl.read_parquet(project.folder / "data" / "evaluation" / "per_query.parquet")
    assert values.columns == ["system", "split", "qid", "measure", "value"]
    means = values.group_by("system", "split", "measure").agg(pl.col("value").mean(), pl.col("qid").n_unique())
    assert means["qid"].to_list() == [15] * len(means), "each of a split's 15 questions counts"
    for split in ("dev", "test"):
        metrics = json.loads((project.folder / "metrics" / f"{split}.json").read_text())
        for system, split_, measure, mean, _ in means.iter_rows():
            if split_ == split and measure in metrics[system]:
                assert metrics[system][measure] == pytest.approx(mean, abs=1e-6)


def test_significance_is_against_the_dual_encoder(project: Any) -> None:
    found = json.loads((project.folder / "metrics" / "significance.json").read_text())
    metrics = {split: json.loads((project.folder / "metrics" / f"{split}.json").read_text()) for split in found}
    assert set(found) == {"dev", "test"}
    for split, systems in found.items():
        assert set(systems) == set(SYSTEMS) - {"dual_encoder"}
        for system, values in systems.items():
            difference = metrics[split][system]["RR@10"] - metrics[split]["dual_encoder"]["RR@10"]
            assert values["difference"] == pytest.approx(difference, abs=1e-6)
            assert values["p"] is None or 0 <= values["p"] <= 1


@pytest.mark.parametrize("system", DENSE)
def test_indexes_hold_the_matrix(project: Any, system: str) -> None:
    data = project.folder / "data"
    index = faiss.read_index(str(data / "indexes" / system / "index.faiss"))
    matrix = np.load(data / "embeddings" / system / "embeddings.npy").astype(np.float32)
    np.testing.assert_array_equal(index.reconstruct_n(0, index.ntotal), matrix)
    if system != "gnn_encoder":
        np.testing.assert_allclose(np.linalg.norm(matrix, axis=1), 1.0, atol=2e-3)
    pids = pl.read_parquet(data / "indexes" / system / "pids.parquet")["pid"]
    assert pids.equals(pl.read_parquet(data / "prepared" / "passages.parquet")["pid"])


def test_the_graph_informs_the_passages_it_links(project: Any) -> None:
    data = project.folder / "data"
    edges = pl.read_parquet(data / "graph" / "edges.parquet")
    assert edges.group_by("query").len()["len"].to_list() == [5] * 60
    plain, informed = (np.load(data / "embeddings" / s / "embeddings.npy") for s in ("dual_encoder", "gnn_encoder"))
    assert plain.shape == informed.shape == (120, 32)
    linked = edges["passage"].unique().to_numpy()
    assert (plain[linked] != informed[linked]).any(axis=1).all()


def test_search_prints_passages(project: Any) -> None:
    corpus = pl.read_parquet(project.folder / "data" / "prepared" / "passages.parquet")
    ran = project.python("-m", "gnn_encoder.cli", "search", "Which milk is halloumi made with?")
    assert ran.status == 0, ran.output
    found = [pid for pid in corpus["pid"] if re.search(rf"\b{re.escape(pid)}\b", ran.stdout)]
    assert len(found) >= 5


# --- what runs again --------------------------------------------------------------------------------------------------


def test_a_second_repro_runs_nothing(project: Any) -> None:
    ran = project.dvc("repro")
    print(f"second dvc repro: {ran.seconds:.1f} s")
    assert ran.status == 0, ran.output
    assert started(ran) == []
    assert "Data and pipelines are up to date." in ran.output
    assert project.git("status", "--porcelain") == ""


def test_an_experiment_reruns_what_depends_on_it(project: Any, copy_of: Callable[..., Any]) -> None:
    copy = copy_of(project)
    before, committed = copy.hashes("data"), measured(copy)
    ran = copy.dvc("exp", "run", "--name", "half", "-S", "mgt.beta=0.5")
    assert ran.status == 0, ran.output
    assert sorted(started(ran)) == sorted(
        ["train_mgt", "encode_corpus", "build_index@gnn_encoder", "retrieve@gnn_encoder", "evaluate"]
    )
    assert yaml.safe_load((copy.folder / "params.yaml").read_text())["mgt"]["beta"] == 0.5
    after = copy.hashes("data")
    changed = {name for name in before | after if before.get(name) != after.get(name)}
    depends = (
        "data/mgt/", "data/embeddings/gnn_encoder/", "data/indexes/gnn_encoder/", "data/runs/gnn_encoder/",
        "data/evaluation/",
    )  # fmt: skip
    assert changed and all(name.startswith(depends) for name in changed)

    shown = copy.dvc("exp", "show", "--only-changed", "--csv")
    assert shown.status == 0, shown.output
    rows = pl.read_csv(shown.stdout.encode(), infer_schema=False)
    assert rows.filter(pl.col("Experiment") == "half")["mgt.beta"].to_list() == ["0.5"]
    assert "build_graph.k" not in rows.columns

    old, new = ({name: json.loads(text) for name, text in metrics.items()} for metrics in (committed, measured(copy)))
    expected = {
        f"{system}.{measure}": (old["dev"][system][measure], value)
        for system, values in new["dev"].items()
        for measure, value in values.items()
        if value != old["dev"][system][measure]
    }
    assert expected and all(name.startswith("gnn_encoder.") for name in expected)
    difference = copy.dvc("metrics", "diff", "--json", "--targets", "metrics/dev.json")
    assert difference.status == 0, difference.output
    changes = json.loads(difference.stdout)["metrics/dev.json"]
    assert {name: (change["old"], change["new"]) for name, change in changes.items()} == expected


def test_metrics_diff_shows_what_an_experiment_changed(project: Any, copy_of: Callable[..., Any]) -> None:
    copy = copy_of(project)
    committed = json.loads((copy.folder / "metrics" / "dev.json").read_text())
    ran = copy.dvc("exp", "run", "-S", "retrieve.depth=3")
    assert ran.status == 0, ran.output
    assert sorted(started(ran)) == sorted(["bm25", *(f"retrieve@{system}" for system in DENSE), "evaluate"])
    shown = copy.dvc("metrics", "diff", "--json", "--targets", "metrics/dev.json")
    assert shown.status == 0, shown.output
    change = json.loads(shown.stdout)["metrics/dev.json"]["dual_encoder.R@20"]
    assert change["old"] == committed["dual_encoder"]["R@20"] > change["new"]


def measured(project: Any) -> dict[str, str]:
    return {split: (project.folder / "metrics" / f"{split}.json").read_text() for split in ("dev", "test")}


def test_the_dag_is_drawn(project: Any) -> None:
    ran = project.dvc("dag", "--md")
    assert ran.status == 0, ran.output
    assert ran.stdout.lstrip().startswith("```mermaid")
    for name in ("prepare", "train_mgt", "encode_corpus", "evaluate"):
        assert f'["{name}"]' in ran.stdout


def test_the_same_seed_makes_the_same_bytes(project: Any, copy_of: Callable[..., Any]) -> None:
    copy = copy_of(project)
    before = copy.hashes(*OUTPUTS)
    ran = copy.dvc("repro", "--force", "--single-item", "train_retriever", "train_cross_encoder", "train_mgt")
    assert ran.status == 0, ran.output
    assert sorted(started(ran)) == ["train_cross_encoder", "train_mgt", "train_retriever"]
    assert copy.hashes(*OUTPUTS) == before


def test_the_same_experiment_twice_has_the_same_metrics(project: Any, copy_of: Callable[..., Any]) -> None:
    copy = copy_of(project)
    before = copy.hashes(*OUTPUTS)
    ran = copy.dvc("repro", "--force", "--downstream", "train_dual_encoder")
    assert ran.status == 0, ran.output
    assert {"train_dual_encoder", "train_mgt", "encode_corpus", "evaluate"} <= set(started(ran))
    assert copy.hashes(*OUTPUTS) == before
