"""Tables of Dual-Cross-Encoder's views: the paper's own numbers, and rows by hand."""

import polars as pl

from gnn_encoder.presenting.compared import diversity_table, views_table

ROUGE = [42.49, 50.93, 55.67, 58.45, 60.63, 62.28, 63.57, 64.62, 65.46, 66.22]  # the paper's Table 6
RR = [27.74, 30.09, 31.15, 31.66, 31.92, 32.38, 32.67, 32.88, 32.96, 33.23]


def curve(views: int, plain: bool = False) -> pl.DataFrame:
    """The first rows of the paper's table as `views_curve` writes them; their mean stays level with one view."""
    rows = [(1, "max", None, 0.25)] if plain else []
    for i, (rouge, rr) in enumerate(zip(ROUGE[:views], RR[:views], strict=True)):
        number = i + 1 + plain
        rows.append((number, "max", rouge / 100, rr / 100))
        if number > 1:
            rows.append((number, "mean", rouge / 100, RR[0] / 100))
    return pl.DataFrame(rows, ["views", "pool", "ROUGE-L", "RR@10"], orient="row")


def test_the_papers_correlation() -> None:
    note = "Pearson's correlation of ROUGE-L and RR@10 by the best view: 0.9958"  # section 5.1
    assert views_table(curve(10)).note == views_table(curve(10, plain=True)).note == note


def test_rows() -> None:
    table = views_table(curve(1, plain=True))
    assert table.columns == ["views", "pool", "ROUGE-L", "RR@10"] and table.note == ""
    assert table.rows == [
        ["1", "max", "–", "25"],
        ["2", "max", "42.49", "27.74"],
        ["2", "mean", "42.49", "27.74"],
    ]


def test_levels() -> None:
    levels = pl.DataFrame({"pairs": [7], "self_bleu": [0.05], "rouge_l": [0.5], "RR@10": [1 / 3]})
    table = diversity_table(levels)
    assert (table.columns, table.rows) == (["pairs", "self bleu", "rouge l", "RR@10"], [["7", "5", "50", "33.33"]])
