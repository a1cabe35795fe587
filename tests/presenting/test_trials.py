from gnn_encoder.evaluation.significance import Comparison
from gnn_encoder.evidence.summary import Mean, Summary
from gnn_encoder.presenting.tables import markdown
from gnn_encoder.presenting.trials import summary_tables


def mean(value: float) -> Mean:
    seeds = [value - 0.01, value + 0.01]
    return Mean(mean=value, low=value - 0.02, high=value + 0.02, seeds=seeds, seed_low=0.0, seed_high=1.0)


def test_summary_tables() -> None:
    loss = Comparison(baseline="full", difference=-0.0125, low=-0.02, high=-0.005, p=1e-4, p_holm=2e-4, queries=9)
    means = {"R@5": {"full": mean(0.75), "no_gnn": mean(0.7)}, "RR@10": {"full": mean(0.5), "no_gnn": mean(0.4875)}}
    found = {split: Summary(means=means, against={"full": {"no_gnn": loss}}) for split in ("dev", "test")}
    test, dev = summary_tables(found, "Ablations", "System", "RR@10")
    assert test.title == "Ablations, test queries, points of 100" and dev.title.startswith("Ablations, dev")
    assert markdown(test).splitlines() == [
        "| System              |  R@5 | RR@10 |   RR@10, 95% | RR@10, seeds |                    against full |",
        "| ------------------- | ---: | ----: | -----------: | -----------: | ------------------------------: |",
        "| full                | 75.0 |  50.0 | 48.0 to 52.0 | 49.0 to 51.0 |                               – |",
        "| control without GNN | 70.0 |  48.8 | 46.8 to 50.7 | 47.8 to 49.8 | ▼ -1.2 [-2.0, -0.5], p = 0.0002 |",
    ]
