import math
from typing import Any

import ir_measures
import polars as pl
import pytest

from gnn_encoder.base.errors import UserError
from gnn_encoder.evaluate import measures
from gnn_encoder.evaluate.measures import answer_depth, cutoff, parse, per_query


def qrels(*rows: tuple[str, str, int]) -> pl.DataFrame:
    return pl.DataFrame(rows, {"qid": pl.String, "pid": pl.String, "grade": pl.Int32}, orient="row")


def run(rankings: dict[str, str]) -> pl.DataFrame:
    """All scores tie: the ranks decide."""
    rows = [(qid, pid, rank, 7.0) for qid, pids in rankings.items() for rank, pid in enumerate(pids, 1)]
    return pl.DataFrame(rows, {"qid": pl.String, "pid": pl.String, "rank": pl.Int32, "score": pl.Float64}, orient="row")


def test_ranks_decide_where_scores_tie() -> None:
    for relevant, expected in (("m", [1.0, 1.0]), ("z", [0.5, 0.0]), ("a", [1 / 3, 0.0])):
        table = per_query(run({"q1": "mza"}), qrels(("q1", relevant, 1)), ["RR@10", "R@1"])
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
    with pytest.raises(UserError, match=r"^it has 'XX@1': no .* ir-measures; also 'R@0': the .* from 1; take one"):
        parse(["XX@1", "RR@10", "R@0"], "it")


def test_where_answers_judge_a_measure_needs_the_run_alone() -> None:
    assert answer_depth(["RR@10", "Success@20"]) == 20 and answer_depth(["RR", "P@5"]) is None
    for name in ("R@10", "nDCG@10", "RR(rel=2)@10"):
        with pytest.raises(UserError, match=r"^evaluate.measures has '.*': the queries are judged by answers"):
            answer_depth(["RR@10", name])


def test_a_measure_that_is_defined_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """A relevant passage at rank r counts 1 / 2^(r - 1), as a share of the best order's."""

    def half_life(qrels: Any, run: Any) -> float:
        relevant = set(qrels.doc_id[qrels.relevance > 0])
        ideal = sum(0.5**place for place in range(len(relevant)))
        return sum(0.5**place for place, pid in enumerate(run.doc_id) if pid in relevant) / ideal

    defined = ir_measures.define_byquery(half_life, name="HalfLife")
    monkeypatch.setitem(ir_measures.measures.registry, "HalfLife", defined)
    judged = qrels(("q1", "a", 2), ("q1", "b", 1), ("q1", "x", 0), ("q2", "c", 1), ("q3", "c", 1))
    table = per_query(run({"q1": "xab", "q2": "x"}), judged, ["HalfLife@2", "HalfLife", "RR@10"])
    assert table["value"].to_list() == [0.5 / 1.5, 0.75 / 1.5, 0.5, 0, 0, 0, 0, 0, 0]
    assert cutoff("HalfLife@2") == 2 and list(parse(["HalfLife@2"])) == ["HalfLife@2"]


def test_a_mean_does_not_depend_on_the_order_of_queries_or_on_chunks() -> None:
    values = pl.DataFrame({"qid": [str(n) for n in range(5000)], "value": [1 / (1 + n % 7) for n in range(5000)]})
    table = values.select("qid", pl.lit("RR@10").alias("measure"), "value")
    exact = math.fsum(table["value"]) / len(table)
    rows = table.sample(fraction=1, shuffle=True, seed=1)
    assert measures.mean(pl.concat([rows[:1234], rows[1234:]], rechunk=False)) == {"RR@10": exact}
    assert measures.mean(pl.concat([table, table.with_columns(measure=pl.lit("R@5"))]))["R@5"] == exact
