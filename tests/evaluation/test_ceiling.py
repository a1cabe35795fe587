"""The share of the way to the ceiling: by hand, by another bootstrap, and where it is undefined."""

import numpy as np
import polars as pl
import pytest

from gnn_encoder.evaluation.ceiling import Ceiling, Share
from gnn_encoder.evaluation.ceiling import measure_ceiling as measure

SCHEMA = {"system": pl.String, "split": pl.String, "qid": pl.String, "measure": pl.String, "value": pl.Float64}


def values(systems: dict[str, list[float]], split: str = "test") -> pl.DataFrame:
    rows = [(name, split, f"q{i}", "RR@10", value) for name, of in systems.items() for i, value in enumerate(of)]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def measure_ceiling(table: pl.DataFrame, measured: str, seed: int) -> dict[str, Ceiling]:
    return measure(table, measured, seed, base="dual_encoder", ceiling="reranked")


def test_shares_by_hand() -> None:
    # Means .25, .75 and .375, .25, 1, 0: a quarter of the way, none, half as far again, back by a half.
    table = values(
        {
            "dual_encoder": [0.5, 0.0],
            "reranked": [1.0, 0.5],
            "quarter": [0.5, 0.25],
            "same": [0.5, 0.0],
            "beyond": [1.0, 1.0],
            "worse": [0.0, 0.0],
        }
    )
    found = measure_ceiling(table, "RR@10", seed=0)["test"]
    assert (found.queries, found.base, found.ceiling) == (2, 0.25, 0.75)
    assert {name: (share.mean, share.share) for name, share in found.systems.items()} == {
        "quarter": (0.375, 0.25),
        "same": (0.25, 0.0),
        "beyond": (1.0, 1.5),
        "worse": (0.0, -0.5),
    }
    # The way is .5 in every sample; the gain of "quarter" is 0, .125 or .25.
    assert found.systems["quarter"] == Share(mean=0.375, share=0.25, low=0.0, high=0.5)
    assert found.systems["same"] == Share(mean=0.25, share=0.0, low=0.0, high=0.0)


def test_interval_equals_a_bootstrap_of_drawn_queries() -> None:
    generator = np.random.default_rng(3)
    base = generator.random(60)
    ceiling, system = base + generator.normal(0.3, 0.2, 60), base + generator.normal(0.1, 0.2, 60)
    table = values({"dual_encoder": base.tolist(), "reranked": ceiling.tolist(), "system": system.tolist()})
    found = measure_ceiling(table, "RR@10", seed=1)["test"].systems["system"]
    shares = []
    for _ in range(10_000):
        drawn = generator.integers(0, 60, 60)
        shares.append((system[drawn] - base[drawn]).mean() / (ceiling[drawn] - base[drawn]).mean())
    assert found.share == pytest.approx((system - base).mean() / (ceiling - base).mean())
    assert [found.low, found.high] == pytest.approx(np.quantile(shares, [0.025, 0.975]), abs=0.02)
    assert found.low is not None and found.high is not None and found.low < found.share < found.high


def test_the_queries_are_resampled_together() -> None:
    """A system whose gain is half of the ceiling's in every query covers half of the way in every sample."""
    base = np.random.default_rng(0).random(30)
    way = np.random.default_rng(1).random(30)
    systems = {"dual_encoder": base, "reranked": base + way, "half": base + way / 2}
    found = measure_ceiling(values({name: of.tolist() for name, of in systems.items()}), "RR@10", seed=0)["test"]
    half = found.systems["half"]
    assert (half.share, half.low, half.high) == pytest.approx((0.5, 0.5, 0.5))


@pytest.mark.parametrize("ceiling", [[0.5, 0.0], [0.25, 0.25], [0.0, 0.0]])
def test_undefined_without_a_ceiling_above(ceiling: list[float]) -> None:
    table = values({"dual_encoder": [0.5, 0.0], "reranked": ceiling, "system": [1.0, 1.0]})
    found = measure_ceiling(table, "RR@10", seed=0)["test"]
    assert found.systems["system"] == Share(mean=1.0, share=None, low=None, high=None)


def test_an_interval_without_bounds() -> None:
    """The ceiling is above M_de on the whole, and below it in many samples."""
    table = values({"dual_encoder": [0.5] * 6, "reranked": [1.0, 1.0, 0.9, 0.0, 0.0, 0.2], "system": [0.6] * 6})
    share = measure_ceiling(table, "RR@10", seed=0)["test"].systems["system"]
    assert share.share == pytest.approx(0.1 / (3.1 / 6 - 0.5))
    assert share.low is not None and share.low > 0 and share.high is None
