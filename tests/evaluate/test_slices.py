"""Slices of literal values, against NumPy; properties of queries by hand and from the texts; what informs passages."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from gnn_encoder.base.files import read_json
from gnn_encoder.base.matrix import Rows, open_matrix
from gnn_encoder.base.tables import PASSAGES, QRELS, QUERIES, write_table
from gnn_encoder.evaluate import slices
from gnn_encoder.evaluate.measures import compare, interval
from gnn_encoder.evaluate.slices import THIRDS, About, Sliced
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import load_params
from gnn_encoder.text.encoder import DualEncoder

from ..texts import PAIR, pairs, write
from .conftest import values_of

ABOUT = About(thirds=(0.5, 0.75), passage_length=48, left_out=())
BASE = [0.0, 0.5, 1.0, 0.25, 0.5, 0.0]
SYSTEM = [0.5, 0.5, 1.0, 1.0, 0.25, 1.0]
# `value` is named as a column of the values.
LABELS = pl.DataFrame({"qid": ["q5", "q0", "q1", "q2", "q3", "q4"], "value": list("baaaab")})
LABELS = LABELS.with_columns(words=pl.Series([10, 2, 2, None, 2, 2]))


def test_each_slice() -> None:
    of_dev = values_of({"base": BASE, "system": SYSTEM}).filter(split="dev")
    found = slices.slice_systems(of_dev, (LABELS, ABOUT), "RR@10", "base").slices
    rows = {("value", "a"): [0, 1, 2, 3], ("value", "b"): [4, 5], ("words", "2"): [0, 1, 3, 4], ("words", "10"): [5]}
    assert [(name, label) for name, labels in found.items() for label in labels] == [
        *(("value", "a"), ("value", "b"), ("words", "2"), ("words", "10"))  # numbers in their order
    ]
    ps = {}
    for (name, label), chosen in rows.items():
        of, base, system = found[name][label], np.array(BASE)[chosen], np.array(SYSTEM)[chosen]
        assert of.queries == len(chosen) and of.means == pytest.approx({"base": base.mean(), "system": system.mean()})
        expected = compare(system, base, "base")
        ps[name, label] = expected.p
        assert replace(of.against["system"], p_holm=expected.p) == expected
    name, label = min(ps, key=lambda key: ps[key])
    assert found[name][label].against["system"].p_holm == pytest.approx(min(1, 4 * ps[name, label]))


@pytest.mark.parametrize(
    ("similarities", "expected", "bounds"),
    [
        ([0.9, 0.1, 0.5, 0.2, 0.6, 0.8], "ulmlmu", (0.5, 0.8)),
        ([0.1, 0.2, 0.3, 0.4], "llmu", (0.3, 0.4)),  # a third begins above at least a third of the queries
        ([0.1, 0.5, 0.5, 0.5, 0.5, 0.9], "luuuuu", (0.5, 0.5)),  # equal ones stay together
        ([1.0, 0.2, 1.0, 0.3, 1.0, 1.0], "ululuu", (1.0, 1.0)),
        ([0.4], "u", (0.4, 0.4)),
        ([0.4, 0.3], "ul", (0.4, 0.4)),
    ],
)
def test_thirds(similarities: list[float], expected: str, bounds: tuple[float, float]) -> None:
    found, ends = slices.thirds(np.array(similarities))
    assert "".join(name[0] for name in found) == expected and set(found) <= set(THIRDS)
    assert ends == bounds


def test_judged_by_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Passages 1 and 2 are labelled in training, 1 and 3 are cut. Judged by qrels: `test_the_stage`."""
    monkeypatch.chdir(tmp_path)
    write(project.PASSAGES, PASSAGES, ["p0", "p1", "p2", "p3"], [""] * 4, ["words"] * 4)
    for split in ("dev", "test"):
        write(project.queries(split), QUERIES, list("abc"), ["what?"] * 3, [["words"]] * 3)
        write(project.qrels(split), QRELS, ["a"], ["p0"], [0])
    write(project.POSITIVES, QRELS, ["c", "a"], ["p1", "p0"], [1, 1])
    read: Any = SimpleNamespace(is_cut=lambda rows: rows % 2 == 1, length=5)
    known = np.array([0.3, 0.2, 0.1]), np.array([1, 2]), read, np.array([0, 2])
    (dev, _), (test, about) = (slices.properties_of(split, *known) for split in ("dev", "test"))
    third = {"a": "upper third", "b": "middle third", "c": "lower third"}
    assert dev.rows() == [
        ("a", third["a"], "no", "no", "yes"),
        ("b", third["b"], *[None] * 3),
        ("c", third["c"], "yes", "yes", "no"),
    ]
    assert test.rows() == list(third.items())
    assert about == About(thirds=(0.2, 0.3), passage_length=5, left_out=("labelled", "cut", "retrieved"))


@pytest.mark.usefixtures("built_copy")
def test_the_stage() -> None:
    """Against the texts themselves: each query embedded alone, all cosines, and the tokenizer's own count."""
    params = load_params()
    encoder = DualEncoder.load(project.encoder("dual_encoder"), precision="fp32").for_inference()
    every = ("train", "dev", "test")
    judged = {split: pl.read_parquet(project.qrels(split)).filter(pl.col("grade") > 0) for split in every}
    write_table(project.POSITIVES, QRELS, [judged["dev"].to_arrow()])
    found_by_split = slices.query_properties(params, retrieved := np.arange(0, 120, 3))

    queries = {split: pl.read_parquet(project.queries(split)) for split in judged}
    training = encoder.embed_queries(queries["train"]["text"].to_list())
    passages = pl.read_parquet(project.PASSAGES).rows()
    texts = {pid: f"{title} [SEP] {text}" if title else text for pid, title, text in passages}
    for split in ("dev", "test"):
        found, about = found_by_split[split]
        assert sorted(found["qid"]) == sorted(set(judged[split]["qid"])) and len(found) == 15
        for qid, third, labelled, cut, edges in found.iter_rows():
            (text,) = queries[split].filter(qid=qid)["text"]
            place, ends = THIRDS.index(third), (-1.0, *about.thirds, 1.01)
            nearest = float((training @ encoder.embed_queries([text])[0]).max())
            assert ends[place] - 6e-4 < nearest < ends[place + 1] + 6e-4
            relevant = judged[split].filter(qid=qid)["pid"]
            assert labelled == ("yes" if set(judged["train"]["pid"]).intersection(relevant) else "no")
            lengths = [len(encoder.tokenizer(texts[pid])["input_ids"]) for pid in relevant]
            rows = [[pid for pid, *_ in passages].index(pid) for pid in relevant]
            assert edges == ("yes" if np.isin(rows, retrieved).any() else "no")
            assert cut == ("yes" if max(lengths) > params.encoder.passage_length else "no")
        assert [found[name].n_unique() for name in ("similarity", "labelled", "cut")] == [3, 2, 2]


@pytest.mark.usefixtures("built_copy")
def test_training_queries_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against their texts, embedded one by one, all products, and RR@50 by hand, of a sample and of all."""
    params = load_params()
    again, texts = slices.asked_again(["dual_encoder", "gnn_encoder"], "RR@50", params), project.tables("train")
    queries, pids = pl.read_parquet(texts[0]).rows_by_key("qid"), pl.read_parquet(project.PASSAGES)["pid"].to_list()
    relevant = pl.read_parquet(texts[1]).filter(pl.col("grade") > 0).rows_by_key("qid")
    for system, found in again.items():
        encoder = DualEncoder.load(project.encoder(system), precision="fp32").for_inference()
        matrix, values = np.asarray(open_matrix(project.embeddings(system)), dtype=np.float32), []
        for qid, judged in relevant.items():
            ranked = np.argsort(-(encoder.embed_queries([queries[qid][0][0]]) @ matrix.T)[0])[:50]
            hits = [rank for rank, row in enumerate(ranked, 1) if pids[row] in {one[0] for one in judged}]
            values.append(1 / hits[0] if hits else 0.0)
        assert found == pytest.approx(np.mean(values), abs=1e-6) and found > 0
    monkeypatch.setattr(slices, "ASKED_AGAIN", 1)
    (one,) = slices.asked_again(["dual_encoder"], "RR@50", params).values()
    assert any(one == pytest.approx(value, abs=1e-6) for value in (0, *(1 / rank for rank in range(1, 51))))


def test_whom_a_table_of_slices_shows_and_what_its_note_says(measured: Path) -> None:
    """Its rows: test_stage.py."""
    sliced = read_json(measured / project.METRICS / "gnn_encoder" / "slices.json", dict[str, Sliced])["test"]
    found = slices.slices_table("gnn_encoder", sliced, "test")
    assert found.title == "Test queries: GNN-encoder by slices, RR@10, points of 100"
    assert "more than 48 tokens" in found.note and "Answers" not in found.note
    unknown = replace(sliced, about=replace(ABOUT, left_out=("labelled", "cut")))
    assert "Answers judge these queries" in slices.slices_table("gnn_encoder", unknown, "test").note


# --- what informs passages --------------------------------------------------------------------------------------------

# Passage 0 has one labelled query and two others, passage 1 a labelled one and another, passage 2 labelled ones alone.
ATTENTION = pl.DataFrame(
    [
        *((4, 0, 0.2, 0.1), (5, 0, 0.1, 0.1), (6, 0, 0.3, 0.1), (-1, 0, 0.4, 0.1)),
        *((6, 1, 0.7, 0.2), (4, 1, 0.1, 0.2), (-1, 1, 0.2, 0.2)),
        *((5, 2, 0.9, 0.3), (-1, 2, 0.1, 0.3)),
    ],
    schema=PAIR | {"attention": pl.Float32, "gate": pl.Float32},
    orient="row",
)
PAIRS = pairs((4, 0), (4, 1), (5, 2))


def test_shares_are_of_passages_with_a_choice() -> None:
    found = slices.attention_shares(ATTENTION, PAIRS)
    for kind, values in {"labelled": [0.2, 0.1], "other": [0.2, 0.7], "itself": [0.4, 0.2]}.items():
        low, high = interval(np.array(values))
        wanted = {"mean": sum(values) / 2, "low": low, "high": high, "passages": 2}
        assert found[kind] == pytest.approx(wanted, abs=1e-6)
    table = slices.attention_table(found)
    assert [row[1] for row in table.rows] == ["0.150", "0.450", "0.300"]
    assert table.note.startswith("2 passages")
    assert slices.attention_shares(ATTENTION.filter(passage=2), PAIRS) == {}
    assert slices.attention_table({}).rows == []


def test_a_case_names_the_queries_that_informed_its_passage(folder: Path) -> None:
    """GNN-encoder alone has q1's p1 at rank 1, which M_de ranks second; it loses none at rank 1."""
    write(project.queries("train"), QUERIES, list("tuvwxyz"), ["what?"] * 7, [[]] * 7)
    write(project.qrels("train"), QRELS, ["x", "x", "y"], ["p0", "p1", "p2"], [1, 1, 1])  # as PAIRS
    write(project.NODES, QUERIES, list("tuvwxyz"), [f"node {row}" for row in range(7)], [[]] * 7)
    asked = []

    def attend(rows: Rows) -> pl.DataFrame:
        asked.extend(rows.tolist())
        return ATTENTION.filter(pl.col("passage").is_in(rows.tolist()))

    told = slices.what_informs(np.arange(3), attend)
    assert asked == [0, 1, 2] and told["attention"] == slices.attention_shares(ATTENTION, PAIRS)
    assert told["counts"] == {"queries": 3, "won": 1, "lost": 0}
    (case,) = told["cases"]
    assert case["query"] == "<script>alert('second')</script>" and case["passage"].startswith("<i>title</i> </script>")
    assert case["rank_of_dual_encoder"] == 2
    assert case["informed_by"] == [
        {"query": "node 6", "attention": pytest.approx(0.7), "labelled": False},
        {"query": "node 4", "attention": pytest.approx(0.1), "labelled": True},
    ]
    table = slices.cases_table([case], told["counts"])
    assert table.rows[0][1].splitlines()[1:] == ["0.70 node 6", "0.10* node 4"] and table.rows[0][2] == "2"
    assert table.note.startswith("Of 3 dev queries GNN-encoder alone answers 1 at rank 1, M_de alone 0.")
