import json
import shutil
from pathlib import Path

from gnn_encoder.base.files import write_json
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.project import registry
from gnn_encoder.presenting.stored import read_results

from .conftest import RECIPROCAL_RANKS, as_measured, comparison


def test_one_branch_alone(one_branch: Path) -> None:
    test, dev = read_results()
    assert (test.split, dev.split) == ("test", "dev")
    assert list(test.means) == list(RECIPROCAL_RANKS)
    gain = test.against_reference["gnn_encoder"]
    assert gain == test.against_own["gnn_encoder"] and (gain.difference, gain.p_holm) == (0.0556, 0.04)
    assert "dual_encoder" not in test.against_reference


def write_comparison(systems: dict[str, dict[str, float]]) -> None:
    for split in ("dev", "test"):
        write_json(project.METRICS / f"{split}.json", systems)
    write_json(project.METRICS / "significance.json", {"test": {"gnn_encoder": comparison(0.1, 0.5)}})
    own = comparison(0.2, 0.01, baseline="retriever")
    write_json(project.METRICS / "baselines.json", {"test": {"gnn_encoder": own}})


def whole_branch(means: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """The means with those of every other system of the branch."""
    return dict.fromkeys(registry().branches["gnn_encoder"].systems, {"RR@10": 0.1}) | means


def test_all_systems_stand_before_the_branches_that_they_leave_out(one_branch: Path) -> None:
    means = json.loads((project.METRICS / "gnn_encoder" / "test.json").read_text())
    write_comparison(means)
    found = read_results()
    # bm25 and others of the branch are in no table of all.
    assert [(table.title, table.split) for table in found] == [
        ("all systems", "test"),
        ("all systems", "dev"),
        ("GNN-encoder, with what it is compared with", "test"),
        ("GNN-encoder, with what it is compared with", "dev"),
    ]
    assert found[0].against_reference["gnn_encoder"].difference == 0.1
    own = found[0].against_own["gnn_encoder"]
    assert (own.baseline, own.difference) == ("retriever", 0.2)

    write_comparison(whole_branch(means))
    assert "all systems" not in {table.title for table in read_results()}  # some were not measured here
    as_measured(*registry().branches["gnn_encoder"].systems)
    assert [table.title for table in read_results()] == ["all systems", "all systems"]


def test_a_table_older_than_the_branch_s_own_is_left_out(one_branch: Path) -> None:
    means = json.loads((project.METRICS / "gnn_encoder" / "test.json").read_text())
    means["gnn_encoder"]["RR@10"] += 0.01
    as_measured(*registry().branches["gnn_encoder"].systems)
    write_comparison(whole_branch(means))
    assert {table.title for table in read_results()} == {"GNN-encoder, with what it is compared with"}


def test_what_is_judged_on_a_sample_has_a_table_of_its_own(one_branch: Path) -> None:
    means = {"dual_encoder": {"RR@10": 0.75}, "reranked": {"RR@10": 1.0}}  # of two of the queries
    write_json(project.METRICS / "reranked" / "test.json", means)
    as_measured("reranked")
    *_, sample = read_results()
    assert sample.title == "M_de, reranked, on a sample of the queries" and sample.sampled
    assert sample.means == means


def test_figures_that_came_with_the_project_are_not_shown_beside_others(one_branch: Path) -> None:
    write_json(project.METRICS / "pair" / "test.json", {"pair": {"RR@10": 0.1}, "of_old": {"RR@10": 0.1}})
    assert {table.title for table in read_results()} == {"GNN-encoder, with what it is compared with"}
    shutil.rmtree(project.MEASURES)  # then nothing has run here
    assert read_results()[-1].means.keys() == {"pair", "of_old"}
