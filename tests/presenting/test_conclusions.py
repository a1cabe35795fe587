"""The claim as a sentence, the advice below it, and the tables of what the baselines chose."""

from pathlib import Path

import polars as pl
import pytest

from gnn_encoder.base.files import write_json
from gnn_encoder.controls.choose import Choice, Tried, write_choice
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.judging import claim_of_main
from gnn_encoder.pipeline.params import Params
from gnn_encoder.presenting.conclusions import advice, choices_table, claim_sentence
from gnn_encoder.presenting.stored import read_choices, read_claim

# Reciprocal ranks of three queries; dev and test differ in the first system alone.
VALUES = {
    "untouched": [1.0, 1.0, 1.0],
    "dual_encoder": [1.0, 0.5, 0.25],
    "closed_form": [1.0, 0.5, 0.5],
    "logged_neighbours": [1.0, 1.0, 1.0],
    "gnn_encoder": [1.0, 1.0, 0.5],
    "hybrid": [1.0, 1.0, 0.5],
}


def values(**others: list[float]) -> pl.DataFrame:
    rows = [
        (system, split, f"q{place}", "RR@10", value)
        for split in ("dev", "test")
        for system, of in (VALUES | others).items()
        for place, value in enumerate(of)
    ]
    return pl.DataFrame(rows, schema=["system", "split", "qid", "measure", "value"], orient="row")


def test_the_rival_is_the_best_on_dev_that_costs_the_same(tiny_params: Params) -> None:
    found = claim_of_main(values(untouched=[0.0, 0.0, 0.0]), tiny_params.evaluate)
    assert (found.best, list(found.better)) == ("closed_form", ["logged_neighbours"]), "a second look-up is no rival"
    assert found.against["dev"].difference == pytest.approx(1 / 6)
    assert found.against["dev"].p == found.against["dev"].p_holm, "one comparison, not corrected"
    assert claim_sentence(found) == (
        "GNN-encoder against M_de + sum of labelled queries, the best on dev of its branch's systems with one "
        "vector per passage and no graph, in RR@10: test +16.7 [-55.0, +88.4], p = 0.42 (no significant difference), "
        "dev +16.7 [-55.0, +88.4], p = 0.42 (no significant difference). Weights and settings were chosen on dev."
    )
    assert advice(found).endswith("try `gnn-encoder search --hybrid`.")
    none = claim_of_main(values(untouched=[0.0] * 3, logged_neighbours=[0.0] * 3), tiny_params.evaluate)
    assert advice(none) == ""


def test_what_is_better_names_what_to_try(empty: Path, tiny_params: Params) -> None:
    written = claim_of_main(values(bm25=[1.0] * 3, logged_neighbours=[0.0] * 3), tiny_params.evaluate)
    write_json(project.METRICS / "gnn_encoder" / "claim.json", written)
    assert read_claim() == written
    assert written.best == "untouched" and list(written.better) == ["bm25", "untouched"]
    lexical, untouched = advice(written).split(" base model", 1)
    assert lexical.endswith("try `gnn-encoder search --hybrid`.")
    assert "encoder.passage_length" in untouched and "lower learning rates" in untouched


def test_tables_of_the_choices(empty: Path) -> None:
    assert read_choices() == {}
    tried = [Tried(setting={"weight": 0.0}, value=0.25), Tried(setting={"weight": -0.1}, value=0.5)]
    choice = Choice(measure="RR@10", queries=1234, chosen=tried[1], tried=tried, facts={"labelled_passages": 7})
    write_choice(project.RUNS / "query_mean", choice)
    fused = Tried(setting={"weight": 0.5}, value=0.75)
    facts = {"dense": "dual_encoder", "depth": 1000, "dev_dual_encoder": 0.5}
    both = Choice(measure="RR@10", queries=1234, chosen=fused, tried=[fused], facts=facts)
    write_choice(project.RUNS / "hybrid", both)
    found = read_choices()
    assert found == {"query_mean": choice, "hybrid": both}
    table = choices_table(found)
    assert table.title == "Chosen on 1,234 dev queries, points of 100"
    assert table.rows == [
        ["M_de + mean of labelled queries", "weight -0.1", "50.0", "2: 25.0 to 50.0"],
        ["hybrid: BM25, dense, log", "weight 0.5", "75.0", "1: 75.0 to 75.0"],
    ]
