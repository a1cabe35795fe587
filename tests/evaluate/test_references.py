"""Measures against references: trec_eval's own C code, and the reciprocal rank written out.

Random runs as others write them: scores that tie (some in single precision alone), ranks that mean nothing, queries
that are missing, empty rankings, passages that nobody judged, grades from 0 to 3.
"""

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import pytrec_eval

from gnn_encoder.base.runs import read_scored_run
from gnn_encoder.evaluate import measures
from gnn_encoder.evaluate.judge import read_qrels
from gnn_encoder.evaluate.measures import mean, per_query

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
    generator = np.random.default_rng(seed)
    pids = [f"p{i}" for i in range(1500)]
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


def write(folder: Path, grades: Grades, scores: Scores) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Through files, in an order that says nothing."""
    generator = np.random.default_rng(0)
    lines = [f"{qid} Q0 {pid} 0 {score!r} t" for qid, found in scores.items() for pid, score in found.items()]
    (folder / "run.trec").write_text("\n".join(np.array(lines)[generator.permutation(len(lines))]))
    lines = [f"{qid} 0 {pid} {grade}" for qid, judged in grades.items() for pid, grade in judged.items()]
    (folder / "qrels.txt").write_text("\n".join(lines))
    return read_scored_run(folder / "run.trec"), read_qrels(folder / "qrels.txt")


@pytest.mark.parametrize("seed", [0, 1])
def test_trec_eval(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measures, "QUERIES_AT_A_TIME", 13)
    grades, scores = random_task(seed)
    names = ["RR@10", "RR(rel=2)@10"]
    table = per_query(*write(tmp_path, grades, scores), [*TREC_EVAL, *names])
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
    run, qrels = write(tmp_path, {"q1": {"b": 1, "c": 1}}, {"q1": {"a": 3, "b": 2, "c": 1}, "q2": {"a": 1}})
    names = ["RR@10", "Success@1", "Success@2", "P@2"]
    table = per_query(run, qrels, names, queries=pl.Series(["q2", "q1", "q3"]))
    assert table["qid"].unique(maintain_order=True).to_list() == ["q2", "q1", "q3"]
    assert mean(table) == pytest.approx({"RR@10": 1 / 6, "Success@1": 0.0, "Success@2": 1 / 3, "P@2": 1 / 6})
    nothing = per_query(run, qrels.clear(), names, queries=pl.Series(["q1", "q2"]))
    assert mean(nothing) == dict.fromkeys(names, 0.0)
