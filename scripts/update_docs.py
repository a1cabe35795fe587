"""Fill README's table from the committed metrics, so that no number in it is typed by hand."""

import re
from pathlib import Path

from gnn_encoder.base.errors import report_errors
from gnn_encoder.base.files import read_json
from gnn_encoder.evaluate.measures import Means
from gnn_encoder.evaluate.tables import Claim, Table, difference, markdown, points
from gnn_encoder.pipeline.project import MAIN, METRICS, UNTOUCHED

ROWS = (
    "base model, untouched",
    "M_de, the dual-encoder that GNN-encoder starts from",
    "M_de and its labels: the best without a graph, as dev says",
    "**GNN-encoder**",
    "above the best without a graph",
    "hybrid of BM25, dense and the log: two look-ups more",
)
SETS = {"a sample of InsuranceQA": METRICS}  # the metrics of each column's experiment


def overview() -> Table:
    """The main system beside what it is compared with, a column a set, on its test queries."""
    columns = [column(metrics / MAIN) for metrics in SETS.values()]
    return Table(title="", columns=["RR@10", *SETS], rows=[list(row) for row in zip(ROWS, *columns, strict=True)])


def column(metrics: Path) -> list[str]:
    """One experiment's cells, in the order of ROWS."""
    claim, means = read_json(metrics / "claim.json", Claim), read_json(metrics / "test.json", Means)
    of = {system: points(values[claim.measure]) for system, values in means.items()}
    first = [of[UNTOUCHED], of["dual_encoder"], of[claim.best], f"**{of[MAIN]}**"]
    return [*first, difference(claim.against["test"]), of["hybrid"]]


if __name__ == "__main__":
    with report_errors():
        readme, filled = Path("README.md"), f"<!-- results -->\n{markdown(overview())}\n<!-- /results -->"
        parts = re.split("<!-- results -->.*<!-- /results -->", readme.read_text(encoding="utf-8"), flags=re.DOTALL)
        readme.write_text(filled.join(parts), encoding="utf-8")
