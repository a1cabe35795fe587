import json
from pathlib import Path

import polars as pl
import pytest
from scipy import stats

from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.systems import registry
from gnn_encoder.presenting.artifacts import Missing
from gnn_encoder.presenting.compared import read_measured, read_results
from gnn_encoder.presenting.results import Results

from .conftest import RECIPROCAL_RANKS, comparison


def tables() -> list[Results]:
    found = read_results(read_measured())
    assert isinstance(found, list)
    return found


def test_nothing_there_names_the_command(empty: Path) -> None:
    assert read_results(read_measured()) == Missing(
        what="No system has been evaluated yet", command="dvc repro evaluate@gnn_encoder"
    )


def test_one_branch_alone(one_branch: Path) -> None:
    test, dev = tables()
    assert (test.split, dev.split) == ("test", "dev")
    assert (list(test.rows[0].measures), test.queries, test.outdated) == (["RR@10"], 3, False)
    rows = {row.system: row for row in test.rows}
    assert list(rows) == list(RECIPROCAL_RANKS)
    for system, values in RECIPROCAL_RANKS.items():
        mean = rows[system].measures["RR@10"]
        low, high = stats.t.interval(0.95, 2, loc=sum(values) / 3, scale=stats.sem(values))
        assert (mean.mean, mean.half) == pytest.approx((sum(values) / 3, (high - low) / 2))
    gain = rows["gnn_encoder"].against_reference
    assert gain and gain == rows["gnn_encoder"].against_own and (gain.difference, gain.p_holm) == (0.0556, 0.04)
    assert rows["dual_encoder"].against_reference is rows["dual_encoder"].against_own is None


def write_comparison(systems: dict[str, dict[str, float]]) -> None:
    for split in ("dev", "test"):
        write_json(project.METRICS / f"{split}.json", systems)
    write_json(project.METRICS / "significance.json", {"test": {"gnn_encoder": comparison(0.1, 0.5)}})
    own = comparison(0.2, 0.01, baseline="retriever")
    write_json(project.METRICS / "baselines.json", {"test": {"gnn_encoder": own}})


def whole_branch(means: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """The means with those of every other system of the branch."""
    return dict.fromkeys(registry().of_branch("gnn_encoder"), {"RR@10": 0.1}) | means


def test_all_systems_stand_before_the_branches_that_they_leave_out(one_branch: Path) -> None:
    means = json.loads((project.METRICS / "gnn_encoder" / "test.json").read_text())
    write_comparison(means)
    found = tables()
    # bm25 and others of the branch are in no table of all.
    assert [(table.title, table.split) for table in found] == [
        ("all systems", "test"),
        ("all systems", "dev"),
        ("GNN-encoder and what it is compared with", "test"),
        ("GNN-encoder and what it is compared with", "dev"),
    ]
    row = {row.system: row for row in found[0].rows}["gnn_encoder"]
    assert row.against_reference and row.against_reference.difference == 0.1
    assert row.against_own and (row.against_own.baseline, row.against_own.difference) == ("retriever", 0.2)

    write_comparison(whole_branch(means))
    assert [table.title for table in tables()] == ["all systems", "all systems"]


def test_a_table_older_than_the_values_says_so(one_branch: Path) -> None:
    means = json.loads((project.METRICS / "gnn_encoder" / "test.json").read_text())
    means["gnn_encoder"]["RR@10"] += 0.01
    write_comparison(whole_branch(means))
    every, _, branch, _ = tables()
    assert every.outdated and not branch.outdated
    assert every.command == "dvc repro compare"
    # The interval is of other values than the mean that the table has.
    assert {row.system: row.measures["RR@10"].half for row in every.rows}["gnn_encoder"] is None


def test_what_is_judged_on_a_sample_has_a_table_of_its_own(one_branch: Path) -> None:
    values = [("reranked", split, qid, "RR@10", 1.0) for split in ("dev", "test") for qid in ("q0", "q1")]
    path = project.measured("reranked") / "values.parquet"
    path.parent.mkdir(parents=True)
    schema = ["system", "split", "qid", "measure", "value"]
    pl.DataFrame(values, schema=schema, orient="row").write_parquet(path)
    means = {"dual_encoder": {"RR@10": 0.75}, "reranked": {"RR@10": 1.0}}  # of q0 and q1
    write_json(project.METRICS / "reranked" / "test.json", means)
    assert all("reranked" not in of for of in read_measured().values())
    *others, sample = tables()
    assert [table.queries for table in others] == [3, 3]
    assert (sample.title, sample.queries, sample.outdated) == (
        "M_de, reranked, on a sample of the queries",
        2,
        False,
    )
