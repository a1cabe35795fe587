"""The claim as a sentence, and the advice below it."""

from pathlib import Path

import pytest

from gnn_encoder.base.files import write_json
from gnn_encoder.evaluate.tables import advice, claim_of_main, claim_sentence, read_claim
from gnn_encoder.pipeline import project

from .conftest import values_of

MEASURE = "RR@10"
VALUES = {
    "untouched": [1.0] * 3,
    "dual_encoder": [1.0, 0.5, 0.25],
    "query_mean": [1.0, 0.5, 0.5],
    "logged_neighbours": [1.0, 1.0, 1.0],
    "gnn_encoder": [1.0, 1.0, 0.5],
    "hybrid": [1.0, 1.0, 0.5],
}


def test_the_rival_is_the_best_on_dev_that_costs_the_same() -> None:
    found = claim_of_main(values_of(VALUES | {"untouched": [0.0] * 3}), MEASURE)
    assert (found.best, list(found.better)) == ("query_mean", ["logged_neighbours"]), "a second look-up is no rival"
    assert found.against["dev"].difference == pytest.approx(1 / 6)
    assert found.against["dev"].p == found.against["dev"].p_holm, "one comparison, not corrected"
    assert claim_sentence(found) == (
        "GNN-encoder against M_de + mean of labelled queries, the best on dev of its branch's systems with one "
        "vector per passage and no graph, in RR@10: test +16.7 [-55.0, +88.4], p = 0.42 (no significant difference), "
        "dev +16.7 [-55.0, +88.4], p = 0.42 (no significant difference). Weights and settings were chosen on dev."
    )
    assert advice(found).endswith("try `gnn-encoder search --hybrid`.")
    none = claim_of_main(values_of(VALUES | {"untouched": [0.0] * 3, "logged_neighbours": [0.0] * 3}), MEASURE)
    assert advice(none) == ""


def test_what_is_better_names_what_to_try(empty: Path) -> None:
    written = claim_of_main(values_of(VALUES | {"bm25": [1.0] * 3, "logged_neighbours": [0.0] * 3}), MEASURE)
    write_json(project.METRICS / "gnn_encoder" / "claim.json", written)
    assert read_claim() == written
    assert written.best == "untouched" and list(written.better) == ["bm25", "untouched"]
    lexical, untouched = advice(written).split(" base model", 1)
    assert lexical.endswith("try `gnn-encoder search --hybrid`.")
    assert "encoder.passage_length" in untouched and "lower learning rates" in untouched
