"""What a baseline chose on dev: every setting that it tried, and the best one, as JSON in its artifact."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from gnn_encoder.base.files import read_json, write_json

CHOICE = "choice.json"
Value = float | int | str
Setting = dict[str, Value]  # such as {"weight": 0.1}
log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Tried:
    """A setting, and the mean of the measure over the dev queries with it, in 0..1."""

    setting: Setting
    value: float


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The best of the settings tried.

    Attributes:
        measure: that of `evaluate.significance`.
        queries: number of dev queries that chose.
        facts: what else a reader or a search has to know, such as the unit of a weight.
    """

    measure: str
    queries: int
    chosen: Tried
    tried: list[Tried]
    facts: Setting = field(default_factory=dict)

    @property
    def setting(self) -> Setting:
        """The chosen setting."""
        return self.chosen.setting

    def tell(self, system: str) -> None:
        """Log what was chosen, of how many settings, and how good it is on dev."""
        points = f"{self.measure} {100 * self.chosen.value:.1f} on {self.queries} dev queries"
        log.info("%s: %s, the best of %d settings: %s", system, shown(self.setting), len(self.tried), points)


def shown(setting: Setting) -> str:
    """A setting in a line."""
    return ", ".join(f"{name} {value if isinstance(value, str) else f'{value:.3g}'}" for name, value in setting.items())


def best_of(settings: list[Setting], values: list[float], *, measure: str, queries: int) -> Choice:
    """The choice of the setting with the highest value; of equally good ones the first.

    Args:
        values: of each setting on dev.
        measure, queries: what the values are of.
    """
    tried = [Tried(setting=one, value=value) for one, value in zip(settings, values, strict=True)]
    return Choice(measure=measure, queries=queries, chosen=max(tried, key=lambda one: one.value), tried=tried)


def plainest_first(values: Iterable[float]) -> list[float]:
    """Values of a grid, each once, from the nearest to 0 on: of equally good ones the one that changes least wins."""
    return sorted(set(values), key=lambda value: (abs(value), value))


def write_choice(folder: Path, choice: Choice) -> None:
    """Write the choice into an artifact's folder."""
    write_json(folder / CHOICE, choice)


def read_choice(folder: Path) -> Choice:
    """Read the choice of an artifact."""
    return read_json(folder / CHOICE, Choice)
