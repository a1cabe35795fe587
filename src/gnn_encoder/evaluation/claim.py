"""What a system is worth: it against the best that costs the same online, and what is better than it."""

from dataclasses import dataclass

from gnn_encoder.evaluation.significance import Comparison

Splits = dict[str, Comparison]  # split -> comparison


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The claim of a system.

    Attributes:
        system: the system.
        measure: that of all values.
        best: its best rival on dev.
        means: split -> system -> mean, of the systems that are named here.
        against: `system` minus `best`.
        better: simple systems that are above `system` on dev: they minus `system`.
    """

    system: str
    measure: str
    best: str
    means: dict[str, dict[str, float]]
    against: Splits
    better: dict[str, Splits]
