"""Measures against trec_eval's own C code and by hand; paired tests against SciPy, Holm's correction by hand."""

import math
import re
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import polars as pl
import pytest
import pytrec_eval
from scipy import stats

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.runs import read_scored_run
from gnn_encoder.evaluate import measures
from gnn_encoder.evaluate.judge import read_qrels
from gnn_encoder.evaluate.measures import Comparison, compare, compare_with, corrected, interval, mean, parse, per_query

# The name in trec_eval, and its option -l.
TREC_EVAL = {
    "RR": ("recip_rank", 1),
    "R@5": ("recall_5", 1),
    "R@50": ("recall_50", 1),
    "R@1000": ("recall_1000", 1),
    "R(rel=2)@1000": ("recall_1000", 2),
    "R(rel=2)@50": ("recall_50", 2),
    "nDCG@10": ("ndcg_cut_10", 1),
    "nDCG@100": ("ndcg_cut_100", 1),
    "Success@5": ("success_5", 1),
    "Success@20": ("success_20", 1),
    "P@10": ("P_10", 1),
    "AP": ("map", 1),
    "AP(rel=2)@100": ("map_cut_100", 2),
    "Bpref": ("bpref", 1),
}
Grades, Scores = dict[str, dict[str, int]], dict[str, dict[str, float]]


def random_task(seed: int) -> tuple[Grades, Scores]:
    """Random runs as others write them.

    Scores tie (some in single precision alone), queries are missing, passages not judged, ids not ASCII.
    """
    generator = np.random.default_rng(seed)
    pids = [f"{'é' if i % 3 else 'p'}{i}" for i in range(1500)]
    grades, scores = {}, {}
    for number in range(40):
        qid = f"q{number}"
        judged = generator.choice(pids, generator.integers(1, 60), replace=False)
        grades[qid] = dict(zip(judged.tolist(), generator.choice([0, 0, 1, 2, 3], len(judged)).tolist(), strict=True))
        if number % 5 == 0:  # nothing from grade 2 on
            grades[qid] = {pid: min(grade, 1) for pid, grade in grades[qid].items()}
        grades[qid][judged[0].item()] = 1
        if number % 7 == 3:
            continue  # missing from the run
        found = generator.choice(pids, generator.integers(1, 1200), replace=False).tolist()
        found += [pid for pid in judged.tolist() if pid not in found][: int(generator.integers(0, 40))]
        values = generator.integers(0, [3, 40, 10_000][number % 3], len(found)) / 8 + 1000  # many ties, few, hardly any
        values = values + generator.integers(0, 2, len(found)) * 1e-9  # equal in single precision
        scores[qid] = dict(zip(found, values.tolist(), strict=True))
    scores["q999"] = {"p1": 1.0}  # a query that nobody judged
    return grades, scores


def read(folder: Path, scores: Scores, grades: Grades) -> tuple[pl.DataFrame, pl.DataFrame]:
    """A run and judgements through files, the run in an order that says nothing, as the ranks in it do."""
    lines = [f"{qid} Q0 {pid} none {score!r} t" for qid, found in scores.items() for pid, score in found.items()]
    (folder / "run.trec").write_text("\n".join(np.random.default_rng(0).permutation(lines)))
    lines = [f"{qid} 0 {pid} {grade}" for qid, judged in grades.items() for pid, grade in judged.items()]
    (folder / "qrels.txt").write_text("\n".join(lines))
    return read_scored_run(folder / "run.trec"), read_qrels(folder / "qrels.txt")


@pytest.mark.parametrize("seed", [0, 1])
def test_trec_eval(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measures, "QUERIES_AT_A_TIME", 13)
    grades, scores = random_task(seed)
    names = ["RR@10", "RR(rel=2)@10"]
    table = per_query(*read(tmp_path, scores, grades), [*TREC_EVAL, *names])
    found = {(qid, name): value for qid, name, value in table.iter_rows()}
    for qid, judged in grades.items():  # what trec_eval cannot cut off, written out
        of = scores.get(qid, {})
        ranked = sorted(of, key=lambda pid: (np.float32(of[pid]), pid), reverse=True)
        for level, name in enumerate(names, 1):
            ranks = [rank for rank, pid in enumerate(ranked[:10], 1) if judged.get(pid, 0) >= level]
            assert found[qid, name] == pytest.approx(1 / ranks[0] if ranks else 0.0, abs=1e-9)
    for name, (reference, level) in TREC_EVAL.items():
        asked = re.sub(r"_(\d+)$", r".\1", reference)
        evaluator = pytrec_eval.RelevanceEvaluator(grades, {asked}, relevance_level=level)
        # trec_eval -c: a query that is missing from the run counts as 0.
        values = {qid: one[reference] for qid, one in evaluator.evaluate(scores).items()}
        assert set(values) == set(grades) & set(scores) and len(values) < len(grades)
        for qid in grades:
            assert found[qid, name] == pytest.approx(values.get(qid, 0.0), abs=1e-9), (qid, name)
        assert mean(table)[name] == pytest.approx(sum(values.values()) / len(grades), abs=1e-9)
        assert 0 < mean(table)[name] < 1


def test_answers_by_hand_and_queries_without_a_hit(tmp_path: Path) -> None:
    """Judged by answers the qrels are the hits; every query counts."""
    run, qrels = read(tmp_path, {"q1": {"a": 3, "b": 2, "c": 1}, "q2": {"a": 1}}, {"q1": {"b": 1, "c": 1}})
    names = ["RR@10", "Success@1", "Success@2", "P@2"]
    table = per_query(run, qrels, names, queries=pl.Series(["q2", "q1", "q3"]))
    assert table["qid"].unique(maintain_order=True).to_list() == ["q2", "q1", "q3"]
    assert mean(table) == pytest.approx({"RR@10": 1 / 6, "Success@1": 0.0, "Success@2": 1 / 3, "P@2": 1 / 6})
    nothing = per_query(run, qrels.clear(), names, queries=pl.Series(["q1", "q2"]))
    assert mean(nothing) == dict.fromkeys(names, 0.0)


def test_ranks_decide_where_scores_tie(tmp_path: Path) -> None:
    run = pl.DataFrame({"qid": "q1", "pid": ["m", "z", "a"], "rank": [1, 2, 3], "score": 7.0})
    for relevant, expected in (("m", [1.0, 1.0]), ("z", [0.5, 0.0]), ("a", [1 / 3, 0.0])):
        table = per_query(run, pl.DataFrame({"qid": ["q1"], "pid": relevant, "grade": 1}), ["RR@10", "R@1"])
        assert table["value"].to_list() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("RRR@10", "'RRR@10': no measure of ir-measures; take one such as"),
        ("R", "a cutoff is missing"),
        ("R@0", "whole number from 1"),  # would end the process inside trec_eval
        ("R@1.5", "whole number from 1"),
        ("P(rel=0)@5", "rel, the least grade of a relevant passage, must be at least 1"),
        ("ERR@10", "none of pytrec_eval, msmarco, runtime computes it"),
        ("", "''"),
    ],
)
def test_bad_names(name: str, message: str) -> None:
    with pytest.raises(UserError, match=f"^evaluate.measures .*{message}"):
        parse(["RR@10", name])
    assert list(parse(["MRR@10", "RR@10", "Recall@5"])) == ["RR@10", "R@5"], "ir-measures' own names, each once"


def test_where_answers_judge_a_measure_needs_the_run_alone() -> None:
    depth = partial(measures.answer_depth, parameter="it")
    assert depth(["RR@10", "Success@20"]) == 20 and depth(["RR", "P@5"]) is None
    for name in ("R@10", "nDCG@10", "RR(rel=2)@10"):
        with pytest.raises(UserError, match=r"^it has '.*': the queries are judged by answers"):
            depth(["RR@10", name])


def test_a_measure_that_is_defined_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def last(qrels: Any, run: Any) -> float:
        return float(run.doc_id.iloc[-1] in set(qrels.doc_id[qrels.relevance > 0]))

    monkeypatch.setitem(ir_measures.measures.registry, "Last", ir_measures.define_byquery(last, name="Last"))
    judged = {"q1": {"a": 2, "b": 1, "x": 0}, "q2": {"c": 1}}
    run = read(tmp_path, {"q1": {"a": 3, "x": 2, "b": 1}, "q2": {"x": 1}}, judged)
    assert per_query(*run, ["Last@2", "Last", "RR@10"])["value"].to_list() == [0, 1, 1, 0, 0, 0]
    assert measures.cutoff("Last@2") == 2


def test_a_mean_does_not_depend_on_the_order_of_queries_or_on_chunks() -> None:
    table = pl.DataFrame({"measure": "RR@10", "value": [1 / (1 + n % 7) for n in range(5000)]})
    exact = math.fsum(table["value"]) / len(table)
    rows = table.sample(fraction=1, shuffle=True, seed=1)
    assert mean(pl.concat([rows[:1234], rows[1234:]], rechunk=False)) == {"RR@10": exact}
    assert mean(pl.concat([table, table.with_columns(measure=pl.lit("R@5"))]))["R@5"] == exact


# --- whether two systems differ ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [2, 4, 50])
def test_against_scipy(size: int) -> None:
    """The interval of a mean too."""
    system, baseline = np.random.default_rng(size).normal(size=(2, size))
    found, expected = compare(system, baseline), stats.ttest_rel(system, baseline)
    ends = (found.difference, found.p, found.low, found.high)
    low, high = expected.confidence_interval()
    assert ends == pytest.approx(((system - baseline).mean(), expected.pvalue, low, high), abs=1e-9)
    assert found.queries == size and interval(system - baseline) == pytest.approx((low, high), abs=1e-9)
    assert interval(np.full(2, 0.3)) == interval(np.array([0.3])) == (0.3, 0.3)


@pytest.mark.parametrize(
    ("system", "baseline", "difference", "ends", "p"),
    [
        ([0.5, 1.0, 0.25], [0.5, 1.0, 0.25], 0.0, (0.0, 0.0), 1.0),
        ([1.0, 1.0], [0.5, 0.5], 0.5, (0.5, 0.5), 0.0),  # one and the same difference
        ([1.0], [0.5], 0.5, (-1.0, 1.0), 1.0),  # a single query proves nothing
    ],
)
def test_without_spread(system: list[float], baseline: list[float], difference: float, ends: tuple, p: float) -> None:
    expected = {"low": ends[0], "high": ends[1], "p": p, "p_holm": p, "queries": len(system)}
    with warnings.catch_warnings(action="error"):
        found = compare(np.array(system), np.array(baseline))
    assert found == Comparison(baseline="", difference=difference, **expected)


def test_pairs_by_query_whatever_the_order() -> None:
    of = {
        "dual_encoder": {"q1": 0.2, "q2": 0.8, "q3": 0.5},
        "gnn_encoder": {"q3": 0.6, "q2": 0.9, "q1": 0.5},
        "pair": {"q2": 0.9, "q1": 0.9, "q3": 0.6},
    }
    rows = [(system, "dev", qid, "RR@10", value) for system, values in of.items() for qid, value in values.items()]
    rows += [(system, "dev", "q1", "R@5", 0.0) for system in of]
    values = pl.DataFrame(rows, schema=["system", "split", "qid", "measure", "value"], orient="row")
    found = compare_with(values, "RR@10", {"gnn_encoder": "dual_encoder", "pair": "gnn_encoder"})["dev"]
    gnn = compare(np.array([0.5, 0.9, 0.6]), np.array([0.2, 0.8, 0.5]), "dual_encoder")
    pair = compare(np.array([0.9, 0.9, 0.6]), np.array([0.5, 0.9, 0.6]), "gnn_encoder")
    assert gnn.p < pair.p and list(found) == ["gnn_encoder", "pair"]
    assert list(found.values()) == [replace(gnn, p_holm=2 * gnn.p), pair]


@pytest.mark.parametrize(
    ("ps", "expected"),
    [
        ([0.02, 0.4, 0.01, 0.03], [0.06, 0.4, 0.04, 0.06]),  # sorted .01 .02 .03 .4: times 4 3 2 1 is .04 .06 .06 .4
        ([0.5, 0.4, 0.9], [1.0, 1.0, 1.0]),
        ([0.03], [0.03]),
        ([], []),
    ],
)
def test_holm_by_hand(ps: list[float], expected: list[float]) -> None:
    one = compare(np.zeros(2), np.zeros(2))
    found = corrected({place: replace(one, p=p) for place, p in enumerate(ps)})
    assert list(found) == list(range(len(ps))), "in their order"
    assert [found[place].p_holm for place in found] == pytest.approx(expected)
