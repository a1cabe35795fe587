"""Reordering by hand, and the stage on the tiny model: order, ties, what is below, a sample, a kill, its time."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
import yaml
from transformers import AutoModelForSequenceClassification

from gnn_encoder.base.runs import as_matrices, read_run, write_run
from gnn_encoder.evaluation.reranking import reorder, sample_qids
from gnn_encoder.evaluation.slices import About, Labels
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.project import registry
from gnn_encoder.text import cross_encoder
from gnn_encoder.text.cross_encoder import CrossEncoder
from gnn_encoder.text.opening import open_passages, open_queries
from gnn_encoder.text.pretrained import Source, load_model, load_tokenizer
from gnn_encoder.text.tokens import text_batch

from ..project import ROOT, call_stage, declare, set_params

PAIRS = {"query": pl.Int32, "passage": pl.Int32}
RUN = pl.DataFrame(
    [(2, 7, 1), (2, 5, 2), (2, 9, 3), (2, 1, 4), (5, 7, 1), (5, 8, 2), (5, 3, 3)],
    schema=PAIRS | {"rank": pl.Int32},
    orient="row",
)
SCORED = pl.DataFrame(
    [(5, 8, 0.9), (2, 5, 0.5), (2, 7, 0.1), (2, 9, 0.5), (5, 7, 0.2)],
    schema=PAIRS | {"score": pl.Float32},
    orient="row",
)


def test_reorder_by_hand() -> None:
    found = reorder(RUN, SCORED)
    assert found.select("query", "passage", "rank").rows() == [
        *((2, 5, 1), (2, 9, 2), (2, 7, 3), (2, 1, 4)),  # 5 and 9 tie: as before
        *((5, 8, 1), (5, 7, 2), (5, 3, 3)),
    ]
    assert found["score"].to_list() == pytest.approx([0.5, 0.5, 0.1, -4, 0.9, 0.2, -3], abs=1e-6)


def test_matrices() -> None:
    passages, scores = as_matrices(reorder(RUN, SCORED), np.array([2, 5]))
    assert passages.tolist() == [[5, 9, 7, 1], [8, 7, 3, -1]]
    assert scores.dtype == np.float32 and scores[1].tolist() == pytest.approx([0.9, 0.2, -3, 0], abs=1e-6)
    nothing, _ = as_matrices(reorder(RUN, SCORED).clear(), np.array([2, 5]))
    assert nothing.shape == (2, 0)


def test_sample_is_fixed_and_in_order() -> None:
    qids = pl.Series([f"q{i}" for i in range(50)])
    chosen = sample_qids(qids, 10, seed=1)
    assert chosen.to_list() == sample_qids(qids, 10, seed=1).to_list() != sample_qids(qids, 10, seed=2).to_list()
    positions = [int(qid[1:]) for qid in chosen]
    assert positions == sorted(set(positions)) and len(positions) == 10
    assert sample_qids(qids, None, seed=1).equals(qids) and sample_qids(qids, 50, seed=1).equals(qids)


# --- the stage --------------------------------------------------------------------------------------------------------

DEPTH, LENGTH = 20, 48


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, tiny_params: Params) -> Path:
    """Prepared tables, runs of all passages in a random order, a cross-encoder with a head of its own."""
    folder = tmp_path_factory.mktemp("made") / "project"
    shutil.copytree(ROOT / "tests" / "tiny", folder / "tests" / "tiny")
    declare(folder)
    (folder / "params.yaml").write_text(yaml.safe_dump(tiny_params.model_dump()))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        call_stage("prepare")
        project.POSITIVES.parent.mkdir()
        shutil.copy(project.qrels("dev"), project.POSITIVES)
        generator = np.random.default_rng(0)
        pids = pl.read_parquet(project.PASSAGES)["pid"].to_arrow()
        for split in ("dev", "test"):
            qids = pl.read_parquet(project.queries(split))["qid"].to_list()
            rows = np.array([generator.permutation(len(pids))[:50] for _ in qids])
            path = project.run_file("dual_encoder", split)
            write_run(path, qids, pids, rows, -np.arange(50.0)[None].repeat(len(qids), 0), "dual_encoder")
        torch.manual_seed(0)
        source = Source("tests/tiny/model")
        model = load_model(source, dropout=0.0, kind=AutoModelForSequenceClassification, seed=0, num_labels=1)
        with torch.no_grad():
            model.classifier.weight.mul_(20)
        cross_encoder = CrossEncoder(model=model, tokenizer=load_tokenizer(source), precision="fp32")
        cross_encoder.save(project.CROSS_ENCODER)
    return folder


def judged_labels(params: Params) -> Labels:
    """In the place of what needs a model."""
    found, about = {}, About(thirds=(0, 1), passage_length=8, left_out=())
    for split in ("dev", "test"):
        qids = pl.read_parquet(project.queries(split))["qid"]
        found[split] = (pl.DataFrame({"qid": qids, "cut": ["yes", *["no"] * (len(qids) - 1)]}), about)
    return found


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copy = shutil.copytree(made, tmp_path / "project")
    monkeypatch.chdir(copy)
    return copy


def scores_alone(run: pl.DataFrame, split: str, model: Path) -> dict[tuple[str, str], float]:
    """Of each query's first passages, one pair at a time."""
    reranker = CrossEncoder.load(model, precision="fp32").for_inference()
    asked, read = open_queries(project.queries(split), reranker), open_passages(reranker)
    queries = {qid: row for row, qid in enumerate(pl.read_parquet(project.queries(split))["qid"])}
    passages = {pid: row for row, pid in enumerate(pl.read_parquet(project.PASSAGES)["pid"])}
    found = {}
    for qid, pid in run.filter(pl.col("rank") <= DEPTH).select("qid", "pid").iter_rows():
        rows = np.array([queries[qid]]), np.array([passages[pid]])
        batch = text_batch(asked, rows[0], read, rows[1], reranker.template, LENGTH)
        found[qid, pid] = reranker.logits(batch).sigmoid().item()
    return found


def test_runs_are_in_the_cross_encoders_order(folder: Path) -> None:
    set_params(folder, teacher__score="cross_encoder", rerank__queries=6)
    call_stage("rerank")
    for split in ("dev", "test"):
        before, after = (read_run(project.run_file(system, split)) for system in ("dual_encoder", "reranked"))
        qids = after["qid"].unique(maintain_order=True).to_list()
        assert len(qids) == 6 and qids == [qid for qid in before["qid"].unique(maintain_order=True) if qid in qids]
        before = before.filter(pl.col("qid").is_in(qids))
        alone = scores_alone(before, split, project.CROSS_ENCODER)
        for qid in qids:
            old, new = (run.filter(qid=qid).sort("rank") for run in (before, after))
            assert new["rank"].to_list() == list(range(1, 51)) and new["score"].is_sorted(descending=True)
            top, expected = new.head(DEPTH), [alone[qid, pid] for pid in new["pid"][:DEPTH]]
            assert set(top["pid"]) == set(old["pid"][:DEPTH]) and np.ptp(expected) > 5e-5
            np.testing.assert_allclose(top["score"], expected, atol=2e-6)
            assert new["pid"][DEPTH:].to_list() == old["pid"][DEPTH:].to_list()
        assert before["pid"].to_list() != after["pid"].to_list()


def test_a_kill_loses_no_window(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cross_encoder, "WINDOW", 50)
    call_stage("rerank")
    whole = {split: project.run_file("reranked", split).read_bytes() for split in ("dev", "test")}
    shutil.rmtree(project.run_file("reranked", "dev").parent)
    real, encoded = cross_encoder.encode_windows, []

    def killed(*arguments: Any) -> Any:
        for window in real(*arguments):
            encoded.append(1)
            if len(encoded) == 7:  # 5 windows are dev's
                raise KeyboardInterrupt
            yield window

    monkeypatch.setattr(cross_encoder, "encode_windows", killed)
    with pytest.raises(SystemExit, match="130"):
        call_stage("rerank")
    assert not project.run_file("reranked", "dev").exists()
    call_stage("rerank")
    assert len(encoded) == 7 + 4
    assert {split: project.run_file("reranked", split).read_bytes() for split in whole} == whole


def test_measured_on_the_sample_and_compared_on_it(folder: Path) -> None:
    call_stage("rerank")
    told = json.loads((project.METRICS / "reranked" / "latency.json").read_text())
    assert told["passages"] == DEPTH and told["rerank_ms"] > 0
    for branch in ("gnn_encoder", "reranked"):
        for system in registry().branches[branch].systems:
            for split in ("dev", "test"):
                path = project.run_file(system, split)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.exists() or shutil.copy(project.run_file("dual_encoder", split), path)
        project.encoder("dual_encoder").mkdir(exist_ok=True)
        call_stage("evaluate", branch, judged_labels=judged_labels)
    values = pl.read_parquet(project.measured("reranked") / "values.parquet").filter(measure="RR@10", split="test")
    assert values["qid"].n_unique() == 12 and set(values["qid"]) == set(
        read_run(project.run_file("reranked", "test"))["qid"]
    )
    metrics = json.loads((project.METRICS / "reranked" / "test.json").read_text())
    assert list(metrics) == ["dual_encoder", "retriever", "no_gnn", "gnn_encoder", "reranked"]
    assert metrics["reranked"]["RR@10"] == pytest.approx(values["value"].to_numpy().mean())
    base = pl.read_parquet(project.measured("dual_encoder") / "values.parquet").filter(measure="RR@10", split="test")
    assert base["qid"].n_unique() == 15
    sampled = base.filter(pl.col("qid").is_in(values["qid"].to_list()))["value"].to_numpy().mean()
    assert metrics["dual_encoder"]["RR@10"] == pytest.approx(sampled)
    compared = json.loads((project.METRICS / "reranked" / "significance.json").read_text())["test"]
    assert compared["reranked"]["queries"] == 12 and compared["reranked"]["baseline"] == "dual_encoder"
    slices = json.loads((project.METRICS / "reranked" / "slices.json").read_text())["test"]["slices"]["cut"]
    assert slices["no"]["queries"] + slices["yes"]["queries"] == 12, "of the sample"
    ceiling = json.loads((project.METRICS / "reranked" / "ceiling.json").read_text())["test"]
    assert ceiling["queries"] == 12 and set(ceiling["systems"]) == {"retriever", "no_gnn", "gnn_encoder"}
    above = ceiling["ceiling"] > ceiling["base"]
    assert {one["share"] for one in ceiling["systems"].values()} == ({0.0} if above else {None})
