"""The whole DAG through real DVC on the tiny corpus and model: what it makes, and what a change makes run again."""

import gzip
import json
import math
import re
import shutil
from collections.abc import Callable
from typing import Any

import faiss
import numpy as np
import polars as pl
import pytest
import yaml
from safetensors.numpy import load_file, save_file

from gnn_encoder.pipeline.params import load_params
from gnn_encoder.pipeline.project import read_registry
from gnn_encoder.pipeline.stage import read_stages

from ..project import ROOT

REGISTRY = read_registry(ROOT / "systems.yaml")
STAGE_STARTS = re.compile(r"Running stage '([^']+)'")


def started(ran: Any) -> list[str]:
    """Addresses of the stages that ran, without the files that they stand in."""
    return [name.rpartition(":")[2] for name in STAGE_STARTS.findall(ran.output)]


@pytest.fixture(scope="module")
def project(reproduced: tuple[Any, Any]) -> Any:
    return reproduced[0]


# --- what it makes ----------------------------------------------------------------------------------------------------


def test_every_stage_ran_once_and_is_read_as_dvc_reads_it(reproduced: tuple[Any, Any]) -> None:
    project, ran = reproduced
    files = [project.folder / "dvc.lock", *(project.folder / "pipelines").glob("*/dvc.lock")]
    locked = {name: one for file in files for name, one in yaml.safe_load(file.read_text())["stages"].items()}
    assert sorted(started(ran)) == sorted(locked)
    found = {
        name: (
            one["cmd"],
            *({entry["path"] for entry in one[kind]} for kind in ("deps", "outs")),
            set(one["params"]["params.yaml"]),
        )
        for name, one in locked.items()
    }
    assert found == {
        one.address: (one.cmd, {*map(str, one.deps)}, {*map(str, one.outs + one.shown)}, {*one.params})
        for one in read_stages(project.folder)
    }


def test_nothing_is_left_in_the_work_tree(project: Any) -> None:
    assert project.git("status", "--porcelain") == ""
    caches = {"tokens", "unpacked_features"}
    files = [path for path in (project.folder / ".scratch").rglob("*") if path.is_file()]
    left = [path for path in files if not caches.intersection(path.parts)]
    assert left == []


@pytest.mark.parametrize("split", ["dev", "test"])
@pytest.mark.parametrize("system", REGISTRY.systems)
def test_runs_are_valid_trec(project: Any, system: str, split: str) -> None:
    folder = project.folder / "data"
    run = gzip.open(folder / "runs" / system / f"{split}.trec.gz", "rt")
    rows = [line.split(" ") for line in run.read().splitlines()]
    assert {len(row) for row in rows} == {6}
    queries = pl.read_parquet(folder / "prepared" / "queries" / f"{split}.parquet")["qid"]
    corpus = set(pl.read_parquet(folder / "prepared" / "passages.parquet")["pid"])
    found: dict[str, list[list[str]]] = {}
    for row in rows:
        assert (row[1], row[5]) == ("Q0", system)
        found.setdefault(row[0], []).append(row)
    assert set(found) == set(queries)
    depth = load_params(project.folder / "params.yaml").retrieve.depth
    for ranking in found.values():
        assert [int(row[3]) for row in ranking] == list(range(1, len(ranking) + 1))
        scores = [float(row[4]) for row in ranking]
        assert scores == sorted(scores, reverse=True) and all(map(math.isfinite, scores))
        pids = [row[2] for row in ranking]
        assert len(set(pids)) == len(pids) <= depth and corpus.issuperset(pids)
        assert system == "bm25" or len(pids) == depth


@pytest.mark.parametrize("system", REGISTRY.dense)
def test_indexes_hold_the_matrix(project: Any, system: str) -> None:
    data = project.folder / "data"
    index = faiss.read_index(str(data / "indexes" / system / "index.faiss"))
    matrix = np.load(data / "embeddings" / system / "embeddings.npy").astype(np.float32)
    np.testing.assert_array_equal(index.reconstruct_n(0, index.ntotal), matrix)
    if system not in REGISTRY.of_kind("graph", "shifted"):  # what these add may change the length
        np.testing.assert_allclose(np.linalg.norm(matrix, axis=1), 1.0, atol=2e-3)
    pids = pl.read_parquet(data / "indexes" / system / "pids.parquet")["pid"]
    assert pids.equals(pl.read_parquet(data / "prepared" / "passages.parquet")["pid"])


@pytest.mark.parametrize("name", ["runs/bm25/examples", "examples/examples", "pair_labels/finetune"])
def test_examples_hold_every_labelled_passage_of_their_queries(project: Any, name: str) -> None:
    """Else one of them could be drawn as a negative."""
    data = project.folder / "data"
    queries = pl.read_parquet(data / "prepared" / "queries" / "train.parquet").with_row_index("query")
    passages = pl.read_parquet(data / "prepared" / "passages.parquet").with_row_index("passage")
    judged = pl.read_parquet(data / "prepared" / "qrels" / "train.parquet").filter(pl.col("grade") > 0)
    labelled = set(judged.join(queries, on="qid").join(passages, on="pid").select("query", "passage").rows())
    table = pl.read_parquet(data / f"{name}.parquet")
    asked = set(table["query"])
    positives = set(table.select("query", "positives").explode("positives").rows())
    negatives = set(table.select("query", "negatives").explode("negatives").drop_nulls().rows())
    assert asked and {pair for pair in labelled if pair[0] in asked} <= positives
    assert not negatives & (positives | labelled)


# --- what runs again --------------------------------------------------------------------------------------------------


def test_a_second_repro_runs_nothing(project: Any) -> None:
    ran = project.dvc("repro", "--all-pipelines")
    assert ran.status == 0, ran.output
    assert started(ran) == []
    assert "Data and pipelines are up to date." in ran.output
    assert project.git("status", "--porcelain") == ""


def test_an_experiment_reruns_what_depends_on_it(project: Any, copy_of: Callable[..., Any]) -> None:
    copy = copy_of(project)
    before = copy.hashes("data")
    ran = copy.dvc("exp", "run", "--name", "half", "-S", "mgt.beta=0.5")
    assert ran.status == 0, ran.output
    # The control takes the same batches, and the hybrid reads the main system's run.
    own = ["train_mgt", "encode_corpus", "build_index@gnn_encoder", "evaluate@gnn_encoder"]
    assert sorted(started(ran)) == sorted([*own, "train_no_gnn", "controls"])
    assert yaml.safe_load((copy.folder / "params.yaml").read_text())["mgt"]["beta"] == 0.5
    after = copy.hashes("data")
    changed = {name for name in before | after if before.get(name) != after.get(name)}
    kinds = ("embeddings", "indexes", "runs", "measures", "evaluation")
    made = "gnn_encoder", "gnn_encoder_plus", "no_gnn"
    depends = tuple(f"data/{kind}/{system}/" for kind in kinds for system in made)
    depends += ("data/mgt/", "data/no_gnn/", "data/runs/hybrid/")
    assert changed and all(name.startswith(depends) for name in changed)


def test_a_record_is_compared_with_what_a_clone_measured(project: Any, copy_of: Callable[..., Any]) -> None:
    copy, script = copy_of(project), "scripts/results.py"
    how = [f"--{name}=any" for name in ("title", "data", "command", "processor")]
    ran = copy.fork([script, "record", "tiny", *how, "--minutes=1"], [script, "check", "tiny"])
    assert ran.status == 0 and "tiny: all measures of both splits: the same" in ran.stdout, ran.output
    assert ran.stdout.count(" dev |") == ran.stdout.count(" test |") == len(REGISTRY.systems)
    measured = copy.folder / "metrics" / "pair" / "test.json"
    means = json.loads(measured.read_text())
    means["pair"]["RR@10"] += 0.02
    measured.write_text(json.dumps(means))
    ran = copy.fork([script, "check", "tiny"])
    assert ran.status == 1 and "at most 2.0 points apart, 1 is allowed" in ran.stdout, ran.output
    shutil.rmtree(measured.parent)
    ran = copy.fork([script, "check", "tiny"])
    assert ran.status == 0 and ran.stdout.count("not run here") == 4, ran.output


@pytest.mark.parametrize("trained", [False, True])
def test_a_model_that_is_still_its_start_has_its_matrix(stages: Any, trained: bool) -> None:
    data, weights = stages.folder / "data", stages.folder / "data/dual_encoder/model.safetensors"
    shutil.rmtree(data / "dual_encoder")
    shutil.copytree(data / "untouched", data / "dual_encoder")
    if trained:
        save_file({name: value * 1.5 for name, value in load_file(weights).items()}, weights, {"format": "pt"})
    ran = stages.stage("cache_passages", "dual_encoder", counted="gnn_encoder.text.batches:encode_prepared")
    assert ran.status == 0 and (ran.calls > 0) == trained, ran.output
    made, base = ((data / f"embeddings/{name}/embeddings.npy").read_bytes() for name in ("dual_encoder", "untouched"))
    assert (made == base) != trained
