"""Queries that GNN-encoder answers at rank 1 and M_de does not (the paper's Table 5)."""

from typing import Any

from gnn_encoder.presenting.formats import NOTHING, shortened
from gnn_encoder.presenting.tables import Table

HEARD = 3  # most training queries that are shown of a case
LONGEST = 300  # most characters of a text


def cases_table(cases: list[dict[str, Any]]) -> Table:
    """One row per case: the dev query, the passage, and the training queries that informed the passage most."""
    rows = [
        [
            shortened(case["query"], LONGEST),
            str(case["rank_of_dual_encoder"] or f"> {case['depth']}"),
            "; ".join(map(_heard, case["informed_by"][:HEARD])) or NOTHING,
            NOTHING if case["gate"] is None else f"{case['gate']:.3f}",
            shortened(case["passage"], LONGEST),
        ]
        for case in cases
    ]
    columns = ["dev query", "rank with M_de", "training queries heard, with attention", "gate", "passage"]
    return Table(title="Cases (GNN-encoder, Table 5)", columns=columns, rows=rows)


def _heard(one: dict[str, Any]) -> str:
    return f"{one['query']} ({one['attention']:.2f}{', labelled' if one['labelled'] else ''})"
