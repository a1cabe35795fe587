"""What a trained GNN does to the passages that some query retrieved: a network that does nothing shows here."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

Floats = NDArray[np.floating]


@dataclass(frozen=True, kw_only=True)
class Effect:
    """Means over passages that some query retrieved."""

    passages: int  # how many were looked at
    gate: float  # f_p (Eq. 9), its mean
    gate_spread: float  # its standard deviation between passages: near 0, the gate is a constant
    attention_to_itself: float  # a passage's own share of its attention (Eq. 4)
    attention_entropy: float  # 1: all neighbours and the passage itself get alike; 0: one gets all
    shift: float  # ||h'_p - h_p||

    def lines(self) -> Iterator[str]:
        """For the log."""
        yield f"of {self.passages} passages with queries, h' is {self.shift:.3f} from h on average"
        yield f"the gate opens by {self.gate:.4f}, with a spread of {self.gate_spread:.4f} between passages"
        yield (
            f"attention: {self.attention_to_itself:.2f} to the passage itself; entropy {self.attention_entropy:.3f} of "
            "what equal attention has"
        )


def effect_of(attention: pl.DataFrame, before: Floats, after: Floats) -> Effect:
    """Sum up what the network does to some passages.

    Args:
        attention: their `ATTENTION` table; query -1 is the passage itself.
        before, after: h_p and h'_p. *Shape:* (b, d).
    """
    weight = pl.col("attention").cast(pl.Float64)
    information = pl.when(weight > 0).then(-weight * weight.log()).otherwise(0.0).sum()
    each = attention.group_by("passage", maintain_order=True).agg(
        gate=pl.col("gate").first().cast(pl.Float64),
        itself=weight.filter(pl.col("query") < 0).sum(),
        entropy=information / pl.len().cast(pl.Float64).log().clip(lower_bound=1e-12),
    )
    means = {name: float(each[name].to_numpy().mean()) for name in ("gate", "itself", "entropy")}
    return Effect(
        passages=len(each),
        gate=means["gate"],
        gate_spread=float(each["gate"].to_numpy().std()),
        attention_to_itself=means["itself"],
        attention_entropy=means["entropy"],
        shift=float(np.linalg.norm(after.astype(np.float64) - before, axis=1).mean()),
    )
