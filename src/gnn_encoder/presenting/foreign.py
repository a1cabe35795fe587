"""What `gnn-encoder evaluate` prints of anybody's run."""

from gnn_encoder.evaluation.foreign import Judged
from gnn_encoder.evaluation.significance import Comparison
from gnn_encoder.presenting.formats import p_value
from gnn_encoder.presenting.tables import Table


def judged_table(judged: Judged) -> Table:
    """A measure a row, in 0..1; with a second run the paired t-test."""
    means, compared = judged.means(), judged.comparisons()
    columns = ["measure", "run", *(["against", "difference", "95% interval", "p", "p (Holm)"] if compared else [])]
    rows = [[name, f"{value:.4f}"] for name, value in means["value"].items()]
    for row in rows if compared else []:
        row += [f"{means['against'][row[0]]:.4f}", *_tested(compared[row[0]])]
    return Table(title="", columns=columns, rows=rows)


def _tested(found: Comparison) -> list[str]:
    interval = f"{found.low:+.4f} to {found.high:+.4f}"
    return [f"{found.difference:+.4f}", interval, p_value(found.p), p_value(found.p_holm)]
