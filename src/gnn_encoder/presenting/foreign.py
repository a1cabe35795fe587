"""The tables that `gnn-encoder evaluate` prints of any run file."""

from gnn_encoder.evaluation.foreign import Judged
from gnn_encoder.evaluation.slices import Slices
from gnn_encoder.presenting.formats import count, p_value
from gnn_encoder.presenting.slices import slices_table
from gnn_encoder.presenting.tables import Table


def judged_table(judged: Judged) -> Table:
    """One row per measure, in 0..1; with a second run also its values, the differences and a paired t-test."""
    means, compared = judged.means(), judged.comparisons()
    columns = ["measure", "run", *(["against", "difference", "95% interval", "p", "p (Holm)"] if compared else [])]
    rows = [[name, f"{value:.4f}"] for name, value in means["value"].items()]
    for row, c in zip(rows, compared.values(), strict=False):
        interval = f"{c.low:+.4f} to {c.high:+.4f}"
        row += [f"{means['against'][row[0]]:.4f}", f"{c.difference:+.4f}", interval, p_value(c.p), p_value(c.p_holm)]
    return Table(title="", columns=columns, rows=rows)


def sliced_table(judged: Judged, slices: Slices, measure: str) -> Table:
    """One row per slice, in points; with a second run, its values, the differences from it and their p."""
    systems = ["against", "run"] if "against" in judged.values.columns else ["run"]
    queries = count(judged.values["qid"].n_unique())
    return slices_table(slices, systems, title=f"{measure} by slices of {queries} judged queries, points of 100")
