"""The table of systems: what stands in which column of differences."""

from gnn_encoder.evaluation.significance import Comparison
from gnn_encoder.presenting.means import Mean
from gnn_encoder.presenting.results import Results, Row, results_table


def against(baseline: str, difference: float) -> Comparison:
    low, high = difference - 0.01, difference + 0.01
    return Comparison(baseline=baseline, difference=difference, low=low, high=high, p=0.01, p_holm=0.02, queries=10)


def row(system: str, reference: Comparison | None, own: Comparison | None) -> Row:
    return Row(system=system, measures={"RR@10": Mean(mean=0.5)}, against_reference=reference, against_own=own)


def shown(*rows: Row) -> tuple[list[str], list[list[str]]]:
    table = results_table(Results(title="all", split="test", rows=list(rows)), "RR@10")
    return table.columns[2:], [cells[2:] for cells in table.rows]


GNN = row("gnn_encoder", against("dual_encoder", 0.05), against("dual_encoder", 0.05))
PAIR = row("pair", against("dual_encoder", -0.02), against("pair_no_psr", 0.03))


def test_a_baseline_that_is_m_de_stands_in_one_column() -> None:
    columns, rows = shown(row("dual_encoder", None, None), GNN, PAIR)
    assert columns == ["RR@10 against M_de", "RR@10 against its baseline"]
    assert rows == [
        ["–", "–"],
        ["▲ +5.0 [+4.0, +6.0]\np = 0.02", "–"],
        ["▼ -2.0 [-3.0, -1.0]\np = 0.02", "▲ +3.0 [+2.0, +4.0]\np = 0.02 (PAIR without L_P)"],
    ]


def test_a_column_without_differences_is_left_out() -> None:
    assert shown(GNN)[0] == ["RR@10 against M_de"]
    assert shown(row("gnn_encoder", None, against("dual_encoder", 0.05)))[0] == ["RR@10 against its baseline"]
    assert shown(row("dual_encoder", None, None))[0] == []
