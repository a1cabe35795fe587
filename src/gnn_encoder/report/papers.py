"""Tables as the GNN-encoder paper has them: systems over several seeds (Table 3, Figures 3 and 4), cases (Table 5)."""

from collections.abc import Iterator
from typing import Any

from gnn_encoder.report.blocks import Block, label
from gnn_encoder.report.formats import p_value, points

HEARD = 3  # training questions of a case
# What the evidence stage's files hold, in the order that they are shown in.
TITLES = {
    "ablations": "Ablations (GNN-encoder, Table 3)",
    "k": "Passages a question (GNN-encoder, Figure 3)",
    "beta": "Share of the questions masked (GNN-encoder, Figure 4)",
    "times": "Encoding times (GNN-encoder, Table 4)",
    "attention": "Attention to a passage's questions (GNN-encoder, Figure 2)",
    "attention_shares": "Mean attention with and without MGT",
    "cases": "Questions won and lost at rank 1",
}


def is_summary(value: Any) -> bool:
    """Whether it is split -> `means` (measure -> system) and `against` (baseline -> system)."""
    splits = value.values() if isinstance(value, dict) else []
    return bool(splits) and all(isinstance(one, dict) and {"means", "against"} <= one.keys() for one in splits)


def summary_blocks(found: dict[str, Any], title: str, tested: str) -> Iterator[Block]:
    """A table a split: means in points, the interval and the spread over seeds of `tested`, the differences."""
    for split, summary in reversed(found.items()):
        means, against = summary["means"], summary["against"]
        columns = ["", *means, f"{tested}, 95%", f"{tested}, seeds", *(f"against {label(name)}" for name in against)]
        rows = [
            [
                label(system),
                *(points(of[system]["mean"]) for of in means.values()),
                f"{points(mean['low'])} to {points(mean['high'])}",
                f"{points(min(mean['seeds']))} to {points(max(mean['seeds']))}",
                *(_difference(of.get(system)) for of in against.values()),
            ]
            for system, mean in means.get(tested, {}).items()
        ]
        yield Block(title=f"{title}, {split} questions", columns=columns, rows=rows)


def cases_block(cases: list[dict[str, Any]]) -> Block:
    """Questions that GNN-encoder answers at rank 1 and M_de does not, and what informed the passage."""
    rows = [
        [
            case["question"],
            str(case["rank_of_dual_encoder"] or f"> {case['depth']}"),
            "; ".join(map(_heard, case["informed_by"][:HEARD])) or "–",
            "–" if case["gate"] is None else f"{case['gate']:.3f}",
            case["passage"],
        ]
        for case in cases
    ]
    columns = ["dev question", "rank with M_de", "training questions heard, with attention", "gate", "passage"]
    return Block(title="Cases (GNN-encoder, Table 5)", columns=columns, rows=rows)


def _difference(found: dict[str, Any] | None) -> str:
    if found is None:
        return "–"
    interval = f"{100 * found['low']:+.1f}, {100 * found['high']:+.1f}"
    return f"{100 * found['difference']:+.1f} [{interval}], p = {p_value(found['p_holm'])}"


def _heard(one: dict[str, Any]) -> str:
    return f"{one['question']} ({one['attention']:.2f}{', labelled' if one['labelled'] else ''})"
