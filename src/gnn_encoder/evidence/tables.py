"""The evidence as Markdown, for the log and for documents."""

from collections.abc import Iterable
from typing import Any

from gnn_encoder.evaluation.report import markdown
from gnn_encoder.evaluation.significance import Comparison
from gnn_encoder.evidence.attention import MODELS
from gnn_encoder.evidence.summary import Summary


def summary_table(summary: Summary, tested: str, label: str) -> str:
    """A row a system: means, how far the seeds lie apart, and the differences from each baseline, in points."""
    measures = list(summary.means)
    header = [label, *measures, f"{tested}, 95%", f"{tested}, seeds", *(f"against {b}" for b in summary.against)]
    rows = []
    for system, mean in summary.means[tested].items():
        values = [f"{100 * summary.means[measure][system].mean:.1f}" for measure in measures]
        seeds = f"{100 * min(mean.seeds):.1f} to {100 * max(mean.seeds):.1f}"
        interval = f"{100 * mean.low:.1f} to {100 * mean.high:.1f}"
        against = [_difference(found.get(system)) for found in summary.against.values()]
        rows.append([system, *values, interval, seeds, *against])
    return markdown(header, rows)


def times_table(times: dict[str, Any]) -> str:
    """Milliseconds a passage and a question."""
    rows = [
        [system, f"{row['ms_a_passage']:.3f}", f"{row['ms_a_question']:.2f}"]
        for system, row in times["systems"].items()
    ]
    machine = "; ".join(f"{name.replace('_', ' ')}: {value}" for name, value in times["machine"].items())
    return "\n".join([markdown(["", "ms a passage", "ms a question"], rows), "", machine])


def shares_table(shares: dict[str, dict[str, dict[str, Any]]]) -> str:
    """Mean attention to one neighbour of each kind."""
    rows = []
    for kind, found in shares.items():
        cells = [f"{found[m]['mean']:.3f} [{found[m]['low']:.3f}, {found[m]['high']:.3f}]" for m in MODELS]
        difference = found["difference"]
        rows.append([kind, str(found["with"]["passages"]), *cells, f"{difference['difference']:+.3f}", _p(difference)])
    return markdown(["neighbour", "passages", "without MGT", "with MGT", "difference", "p"], rows)


def cases_table(cases: Iterable[dict[str, Any]]) -> str:
    """A row a case: both questions, how much the passage listens to the training question, and the passage."""
    rows = []
    for case in cases:
        first = case["informed_by"][0] if case["informed_by"] else None
        informed = [first["question"], f"{first['attention']:.2f}"] if first else ["(none)", ""]
        rank = str(case["rank_of_dual_encoder"] or f"> {case['depth']}")
        gate = "" if case["gate"] is None else f"{case['gate']:.3f}"
        rows.append([case["question"], rank, *informed, gate, _shortened(case["passage"])])
    header = ["dev question", "rank with M_de", "training question heard most", "attention", "gate", "passage"]
    return markdown(header, [[cell.replace("|", "/") for cell in row] for row in rows])


def _difference(found: Comparison | None) -> str:
    if found is None:
        return ""
    interval = f"[{100 * found.low:+.2f}, {100 * found.high:+.2f}]"
    return f"{100 * found.difference:+.2f} {interval}, p = {found.p_holm:.2g}"


def _p(difference: dict[str, Any]) -> str:
    return f"{difference['p']:.2g}" if difference["p"] > 0 else "< 1e-300"  # too small for a float


def _shortened(text: str, length: int = 160) -> str:
    return text if len(text) <= length else f"{text[:length].rsplit(' ', 1)[0]} ..."
