"""Labels of queries judged by qrels and by answers, by hand; those of stage `slices`, from the texts themselves."""

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.tables import PASSAGES, QRELS, QUERIES, write_table
from gnn_encoder.evaluation.properties import label_queries
from gnn_encoder.evaluation.slices import About
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.labels import judged_labels
from gnn_encoder.pipeline.params import Params, load_params
from gnn_encoder.text.encoder import DualEncoder

from ..project import call_stage, declare
from ..texts import write

WORDS = [3, 9, 3, 9]  # of passages p0 to p3; 5 words are read


def write_queries(split: str, qids: list[str], answers: list[str] | None = None) -> None:
    write(project.queries(split), QUERIES, qids, ["what?"] * len(qids), [answers or []] * len(qids))


def write_qrels(path: Path, rows: list[tuple[str, str, int]]) -> None:
    write(path, QRELS, *zip(*rows, strict=True))


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """p1 and p2 are labelled in training, p0 is judged there as not relevant."""
    monkeypatch.chdir(tmp_path)
    write(project.PASSAGES, PASSAGES, ["p0", "p1", "p2", "p3"], [""] * 4, ["words"] * 4)
    write_queries("train", ["t0", "t1"])
    write_qrels(project.qrels("train"), [("t0", "p1", 1), ("t1", "p2", 2), ("t1", "p0", 0)])


def label(split: str, relevant: Path | None, similarities: list[float]) -> tuple[list[tuple[str, ...]], About]:
    table, about = label_queries(
        project.queries(split),
        relevant,
        project.PASSAGES,
        labelled=np.array([1, 2]),
        similarities=np.array(similarities),
        is_cut=lambda rows: np.array(WORDS)[rows] > 5,
        passage_length=5,
    )
    assert table.columns[:2] == ["qid", "similarity"]
    return table.rows(), about


@pytest.mark.usefixtures("tables")
def test_judged_by_qrels() -> None:
    write_queries("test", ["a", "b", "none", "c", "d"])
    rows = [("b", "p0", 1), ("a", "p3", 1), ("a", "p2", 1), ("c", "p0", 0), ("c", "p1", 2), ("d", "p0", 1)]
    write_qrels(project.qrels("test"), [*rows, ("none", "p0", 0)])
    found, about = label("test", project.qrels("test"), [0.2, 0.9, 0.0, 0.3, 0.5])
    assert found == [
        ("a", "lower third", "yes", "yes"),  # p2 is labelled, p3 is long
        ("b", "upper third", "no", "no"),
        ("c", "lower third", "yes", "yes"),
        ("d", "middle third", "no", "no"),
    ]
    assert about == About(thirds=(0.5, 0.9), passage_length=5, left_out=())


@pytest.mark.usefixtures("tables")
def test_judged_by_answers() -> None:
    for split in ("dev", "test"):
        write_queries(split, ["a", "b", "c"], ["words"])
        write_qrels(project.qrels(split), [("a", "p0", 0)])
    write_qrels(project.POSITIVES, [("c", "p1", 1), ("a", "p0", 1)])
    assert label("dev", project.POSITIVES, [0.3, 0.2, 0.1])[0] == [
        ("a", "upper third", "no", "no"),
        ("b", "middle third", None, None),
        ("c", "lower third", "yes", "yes"),
    ]
    found, about = label("test", None, [0.3, 0.2, 0.1])
    assert found == [("a", "upper third"), ("b", "middle third"), ("c", "lower third")]
    assert about.left_out == ("labelled", "cut")


@pytest.mark.usefixtures("tables")
def test_nothing_is_judged() -> None:
    write_queries("test", ["a"])
    write_qrels(project.qrels("test"), [("a", "p0", 0)])
    with pytest.raises(UserError, match=r"qrels/test.parquet: no query has a passage with a grade above 0"):
        label("test", project.qrels("test"), [0.5])


def test_the_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_corpus: Path, tiny_params: Params) -> None:
    """Against the texts themselves: each query embedded alone, all cosines, and the tokenizer's own count."""
    declare(tmp_path)
    shutil.copytree(tiny_corpus, tmp_path / "tests" / "tiny" / "beir")
    monkeypatch.chdir(tmp_path)
    model = str(tiny_corpus.parent / "model")
    params = tiny_params.model_copy(update={"encoder": tiny_params.encoder.model_copy(update={"model": model})})
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(json.loads(params.model_dump_json())))
    encoder = DualEncoder.from_pretrained(params.encoder)
    encoder.save(project.encoder("dual_encoder"))
    call_stage("prepare")
    judged = {
        split: pl.read_parquet(project.qrels(split)).filter(pl.col("grade") > 0) for split in ("train", "dev", "test")
    }
    write_table(project.POSITIVES, QRELS, [judged["dev"].to_arrow()])
    labels = judged_labels(load_params())

    queries = {split: pl.read_parquet(project.queries(split)) for split in judged}
    training = np.concatenate([encoder.embed_queries([text]) for text in queries["train"]["text"]])
    passages = pl.read_parquet(project.PASSAGES)
    texts = {pid: f"{title} [SEP] {text}" if title else text for pid, title, text in passages.iter_rows()}
    taught = set(judged["train"]["pid"])
    for split in ("dev", "test"):
        found, about = labels[split]
        assert sorted(found["qid"]) == sorted(set(judged[split]["qid"])) and len(found) == 15
        for qid, third, labelled, cut in found.iter_rows():
            (text,) = queries[split].filter(qid=qid)["text"]
            nearest = float((training @ encoder.embed_queries([text])[0]).max())
            place = ["lower third", "middle third", "upper third"].index(third)
            ends = (-1.0, *about.thirds, 1.01)
            assert ends[place] - 6e-4 < nearest < ends[place + 1] + 6e-4
            relevant = judged[split].filter(qid=qid)["pid"]
            assert labelled == ("yes" if taught.intersection(relevant) else "no")
            lengths = [len(encoder.tokenizer(texts[pid])["input_ids"]) for pid in relevant]
            assert cut == ("yes" if max(lengths) > params.encoder.passage_length else "no")
        assert [found[name].n_unique() for name in ("similarity", "labelled", "cut")] == [3, 2, 2]
