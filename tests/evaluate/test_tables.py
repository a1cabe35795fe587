"""Tables, how numbers are written, and which figures are shown at all; the claim as a sentence, and the advice."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.files import write_json
from gnn_encoder.evaluate import tables
from gnn_encoder.evaluate.measures import Comparison
from gnn_encoder.evaluate.tables import Claim, Table, branch_tables, claim_sentences, comparison, markdown
from gnn_encoder.pipeline import project

from .conftest import values_of


def compared(difference: float, p: float, baseline: str = "dual_encoder") -> Comparison:
    ends = {"low": difference - 0.01, "high": difference + 0.01}
    return Comparison(baseline=baseline, difference=difference, **ends, p=p, p_holm=p, queries=9)


@pytest.mark.parametrize(
    ("p", "text"),
    [
        *((1.0, "1.00"), (0.123, "0.12"), (0.042, "0.042"), (0.0042, "0.004"), (2.4e-13, "2e-13")),
        *((0.0496, "0.0496"), (0.04999, "0.04999"), (0.05, "0.05"), (0.0504, "0.05")),
    ],
)
def test_p_is_readable_and_significant_differences_are_marked(p: float, text: str) -> None:
    assert tables.p_value(p) == f"p = {text}" and tables.p_value(0) == "p < 1e-300"
    for gain, mark in ((0.02, "▲ "), (-0.02, "▼ ")):
        first, second = comparison(compared(gain, p)).splitlines()
        assert first == f"{mark if p < 0.05 else ''}{100 * gain:+.1f} [{100 * gain - 1:+.1f}, {100 * gain + 1:+.1f}]"
        assert second == f"p = {text}"
    assert (comparison(None), comparison(None, 0.25)) == ("–", "25.0")


def test_results_in_the_terminal() -> None:
    means = {"pair_no_psr": {"RR@10": 0.4512, "R@5": 0.6}, "pair": {"RR@10": 0.4766, "R@5": 1.0}}
    table = tables.results_table("pair", "test", means, {"pair": compared(0.0254, 2.4e-13, "pair_no_psr")}, "RR@10")
    assert markdown(table).splitlines() == [
        "Test queries: PAIR, with what it is compared with, points of 100",
        "",
        "| System           | RR@10 |   R@5 | RR@10 against PAIR without L_P |",
        "| ---------------- | ----: | ----: | -----------------------------: |",
        "| PAIR without L_P |  45.1 |  60.0 |                              – |",
        "| PAIR             |  47.7 | 100.0 | ▲ +2.5 [+1.5, +3.5], p = 2e-13 |",
    ]
    odd = Table(title="", columns=["x"], rows=[["a|b\nc"]], note="d")
    assert markdown(odd) == "| x      |\n| ------ |\n| a/b, c |\n\nd"
    assert tables.results_table("pair", "dev", means, {}, "RR@10").columns == ["System", "RR@10", "R@5"]
    means = {"no_gnn": {"RR@10": 0.4}, "nudge_n": {"RR@10": 0.4}, "closed_form": {"RR@10": 0.5}}
    noted = tables.results_table("gnn_encoder", "dev", means, {}, "RR@10").note
    assert noted == "Dev chose that these change nothing that is shown: control, NUDGE-N."
    assert [tables.shortened(one, 9) for one in ("one\n two", "one two three")] == ["one two", "one two …"]


def test_figures_that_came_with_the_project_are_not_shown_beside_others(folder: Path) -> None:
    dev, test = branch_tables("gnn_encoder", "RR@10")
    assert test.title.startswith("Test queries: GNN-encoder,") and dev.title.startswith("Dev queries: GNN-encoder,")
    (row,) = [row for row in test.rows if row[0] == "GNN-encoder"]
    assert test.columns[:2] == ["System", "RR@10"] and row[1] == "66.7" and row[-1].startswith("+5.6 [")
    write_json(project.METRICS / "pair" / "test.json", {"pair": {"RR@10": 0.1}, "of_old": {"RR@10": 0.1}})
    assert branch_tables("pair", "RR@10") == []
    shutil.rmtree(project.MEASURES)  # then nothing has run here
    (shown,) = branch_tables("pair", "RR@10")
    assert [row[0] for row in shown.rows] == ["PAIR", "of_old"]
    with pytest.raises(UserError, match="branch is 'pairs': must be one of gnn_encoder, "):
        branch_tables("pairs", "RR@10")


# --- the claim --------------------------------------------------------------------------------------------------------


def claim(**others: list[float]) -> Claim:
    values = {
        "untouched": [0.0] * 3,
        "dual_encoder": [1.0, 0.5, 0.25],
        "no_gnn": [0.5, 0.5, 0.5],
        "nudge_n": [1.0, 0.5, 0.5],
        "logged_neighbours": [0.0] * 3,
        "gnn_encoder": [1.0, 1.0, 0.5],
        "hybrid": [1.0, 1.0, 0.5],
    }
    return tables.claim_of_main(values_of(values | others), "RR@10", {"dual_encoder": 0.5, "gnn_encoder": 0.75})


def test_the_rival_is_the_best_on_dev_that_costs_the_same() -> None:
    found = claim(logged_neighbours=[1.0] * 3)
    assert (found.best, list(found.better)) == ("nudge_n", ["logged_neighbours"]), "a second look-up is no rival"
    assert list(found.against) == ["nudge_n", "no_gnn"], "and the control"
    against = found.against["nudge_n"]["dev"]
    assert against.difference == pytest.approx(1 / 6)
    assert against.p == against.p_holm, "one comparison, not corrected"
    best, control, advice, again = claim_sentences(found)
    assert best == (
        "GNN-encoder's RR@10 above control, NUDGE-N, the best on dev of one vector and no graph: "
        "test +16.7 [-55.0, +88.4], p = 0.42; dev +16.7 [-55.0, +88.4], p = 0.42."
    )
    told = "GNN-encoder's RR@10 above control without GNN, which trains as long as its phase two: test +33.3 [-38.4, "
    assert control.startswith(told)
    assert advice.endswith("try `gnn-encoder search --hybrid`.") and len(claim_sentences(claim())) == 3
    assert again == "RR@10 of training queries that are asked again: M_de 50.0, GNN-encoder 75.0."
    assert claim_sentences(replace(found, again={})) == [best, control, advice]


def test_what_is_better_names_what_to_try(empty: Path) -> None:
    written = claim(bm25=[1.0] * 3, untouched=[1.0] * 3)
    write_json(project.METRICS / "gnn_encoder" / "claim.json", written)
    assert tables.read_claim() == written
    assert written.best == "untouched" and list(written.better) == ["bm25", "untouched"]
    lexical, untouched, _ = claim_sentences(written)[2:]
    assert lexical.endswith("try `gnn-encoder search --hybrid`.")
    assert "encoder.passage_length" in untouched and "lower learning rates" in untouched
