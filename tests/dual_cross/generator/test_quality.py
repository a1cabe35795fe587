"""ROUGE-L and self-BLEU-4 against values worked out by hand."""

from pathlib import Path

import polars as pl
import pytest

from gnn_encoder.dual_cross.quality import measure_queries, rouge_l, self_bleu

from ...texts import write_passages, write_queries


@pytest.mark.parametrize(
    ("text", "reference", "expected"),
    [
        ("the cat sat", "the cat sat", 1.0),
        ("The CAT, sat!", "the cat sat", 1.0),  # case and punctuation do not count
        ("a b c d", "a x b d", 3 / 4),  # a b d: precision and recall 3/4
        ("d c b a", "a b c d", 1 / 4),
        ("a b", "a b c d e f", 2 * 1 * (1 / 3) / (1 + 1 / 3)),
        ("x", "y", 0.0),
    ],
)
def test_rouge_l(text: str, reference: str, expected: float) -> None:
    assert rouge_l(text, reference) == pytest.approx(expected, abs=1e-12)


def test_self_bleu_of_equals_and_of_one() -> None:
    assert self_bleu(["does a plan cover teeth?"] * 3) == pytest.approx(1.0)
    assert self_bleu(["does a plan cover teeth?"]) == 0.0


def test_self_bleu_by_hand() -> None:
    """Each way 4 of 5 words, 3 of 4 pairs, 2 of 3 triples and 1 of 2 fours are found; no brevity penalty."""
    expected = (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** (1 / 4)
    assert self_bleu(["a b c d e", "a b c d f"]) == pytest.approx(expected)


def test_measure(tmp_path: Path) -> None:
    passages = write_passages(tmp_path / "passages.parquet", [""] * 3, ["a b. c", "never judged", "c d e f. g"])
    asked = write_queries(tmp_path / "dev.parquet", ["a b c d", "c d e f", "unjudged"])
    generated = ["a b", "a b c d", "no", "no", "x", "c d e y"]  # two views of three passages
    written = write_queries(tmp_path / "queries.parquet", generated)
    pairs = pl.DataFrame({"query": [0, 1, 0], "passage": [0, 2, 2]}, schema={"query": pl.Int32, "passage": pl.Int32})
    found = measure_queries(pairs, asked, passages, written, views=2)
    assert found.pairs == 3
    # Best of one: 2/3, 0, 0; of two: 1, 3/4, and "c d" of "c d e y" against "a b c d": 1/2.
    assert found.rouge_l == pytest.approx([2 / 9, (1 + 3 / 4 + 1 / 2) / 3])
    assert found.rouge_l_first_sentence == pytest.approx((2 / 3 + 1 + 1 / 2) / 3)
    assert found.self_bleu == pytest.approx((self_bleu(["a b", "a b c d"]) + 2 * self_bleu(["x", "c d e y"])) / 3)
