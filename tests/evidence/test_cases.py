"""Two literal runs compared at rank 1."""

import polars as pl

from gnn_encoder.evaluation.measures import per_query
from gnn_encoder.evidence.rank_one import compare_at_rank_one, informed_by

QRELS = pl.DataFrame(
    [("a", "p1", 1), ("b", "p2", 1), ("b", "p3", 2), ("c", "p4", 1), ("d", "p5", 1), ("e", "p6", 1), ("e", "p7", 0)],
    schema=["qid", "pid", "grade"],
    orient="row",
)


def run(**rankings: list[str]) -> pl.DataFrame:
    rows = [(qid, pid, rank) for qid, pids in rankings.items() for rank, pid in enumerate(pids, 1)]
    return pl.DataFrame(rows, schema=["qid", "pid", "rank"], orient="row")


def measure(ranked: pl.DataFrame) -> pl.DataFrame:
    return per_query(ranked, QRELS, ["P@1"])


OURS = run(a=["p1", "p9"], b=["p3", "p9"], c=["p9", "p4"], d=["p5", "p9"], e=["p7", "p6"])
THEIRS = run(a=["p9", "p8", "p1"], b=["p2", "p3"], c=["p4", "p9"], d=["p9", "p8", "p7"], e=["p9", "p6"])


def test_cases_by_hand() -> None:
    found = compare_at_rank_one(OURS, THEIRS, measure)
    # b is right in both, e wrong in both (p7 has grade 0), c the other way about.
    assert found.won.rows() == [("d", "p5", None, "p9"), ("a", "p1", 3, "p9")], "not found at all comes first"
    assert (found.lost, found.queries) == (1, 5)


def test_informed_by() -> None:
    rows = [(3, 1, 0.2, 0.1), (4, 1, 0.5, 0.1), (-1, 1, 0.3, 0.1), (3, 2, 1.0, 0.4)]
    attention = pl.DataFrame(rows, schema=["query", "passage", "attention", "gate"], orient="row")
    found = informed_by(attention.lazy(), [1, 7])
    assert found[1]["query"].to_list() == [4, -1, 3]
    assert found[7].is_empty()
