"""Tables of the GNN-encoder paper's evidence, literal."""

from gnn_encoder.evaluation.significance import Comparison
from gnn_encoder.evidence.summary import SeedMean, Summary
from gnn_encoder.presenting.paper_evidence import attention_table, cases_table, summary_tables
from gnn_encoder.presenting.tables import markdown


def mean(value: float) -> SeedMean:
    seeds = [value - 0.01, value + 0.01]
    return SeedMean(mean=value, low=value - 0.02, high=value + 0.02, seeds=seeds, seed_low=0.0, seed_high=1.0)


def test_summary_tables() -> None:
    loss = Comparison(baseline="full", difference=-0.0125, low=-0.02, high=-0.005, p=1e-4, p_holm=2e-4, queries=9)
    means = {"R@5": {"full": mean(0.75), "no_gnn": mean(0.7)}, "RR@10": {"full": mean(0.5), "no_gnn": mean(0.4875)}}
    found = {split: Summary(means=means, against={"full": {"no_gnn": loss}}) for split in ("dev", "test")}
    test, dev = summary_tables(found, "ablations", "RR@10")
    assert (
        test.title == "Ablations (GNN-encoder, Table 3), test queries, points of 100" and ", dev queries" in dev.title
    )
    assert markdown(test).splitlines() == [
        "| System              |  R@5 | RR@10 |   RR@10, 95% | RR@10, seeds |                    against full |",
        "| ------------------- | ---: | ----: | -----------: | -----------: | ------------------------------: |",
        "| full                | 75.0 |  50.0 | 48.0 to 52.0 | 49.0 to 51.0 |                               – |",
        "| control without GNN | 70.0 |  48.8 | 46.8 to 50.7 | 47.8 to 49.8 | ▼ -1.2 [-2.0, -0.5], p = 0.0002 |",
    ]


def test_attention_table() -> None:
    share = {"passages": 3, "mean": 0.25, "low": 0.2, "high": 0.3}
    found = {
        "labelled": {"without": share, "with": share | {"mean": 0.5}, "difference": {"difference": 0.25, "p": 0.0}}
    }
    assert attention_table(found).rows == [
        ["labelled", "3", "0.250 [0.200, 0.300]", "0.500 [0.200, 0.300]", "+0.250", "< 1e-300"]
    ]


CASE = {"query": "how?", "rank_of_dual_encoder": None, "depth": 100, "gate": 0.125, "passage": "so\nit is"}


def test_cases_table() -> None:
    heard = [{"query": f"q{place}", "attention": 0.5 - place / 10, "labelled": place == 1} for place in range(4)]
    alone = CASE | {"rank_of_dual_encoder": 3, "informed_by": [], "gate": None}
    assert cases_table([CASE | {"informed_by": heard}, alone]).rows == [
        ["how?", "> 100", "q0 (0.50); q1 (0.40, labelled); q2 (0.30)", "0.125", "so it is"],
        ["how?", "3", "–", "–", "so it is"],
    ]
