"""The prepared tables as they were counted."""

from typing import Any

from gnn_encoder.presenting.formats import NOTHING, count
from gnn_encoder.presenting.tables import Table


def data_table(statistics: dict[str, dict[str, Any]]) -> Table:
    """A row a prepared table. `statistics`: as the stage prepare wrote them."""
    columns = ["Table", "rows", "judgements", "judgements a question", "mean characters"]
    return Table(title="The prepared tables", columns=columns, rows=[_row(*one) for one in statistics.items()])


def _row(name: str, part: dict[str, Any]) -> list[str]:
    judgements = count(part["judgements"]) if "judgements" in part else NOTHING
    each = part.get("judgements_per_question", NOTHING)
    return [
        name,
        count(part["passages" if "passages" in part else "questions"]),
        judgements,
        str(each),
        str(part["mean_characters"]),
    ]
