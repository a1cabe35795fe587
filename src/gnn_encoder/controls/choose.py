"""Which setting of a control is best on dev, and the rankings among which it chooses."""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from gnn_encoder.base.files import read_json
from gnn_encoder.base.matrix import Rows, Scores
from gnn_encoder.search.exact import Ranking, top

CHOICE = "choice.json"
Setting = dict[str, float | int | str]  # such as {"weight": 0.1}
# (n, c): the passages that may be ranked for each query, -1: none, and what gives their scores with a setting
Candidates = tuple[Rows, Callable[[Setting], Scores]]
log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Tried:
    """A setting, and the mean of the measure over the dev queries with it, in 0..1."""

    setting: Setting
    value: float


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The best of the settings tried, by a measure of dev queries; the file `CHOICE` of an artifact."""

    measure: str
    queries: int
    chosen: Tried
    tried: list[Tried]
    facts: Setting = field(default_factory=dict)  # what else a reader or a search has to know, such as a weight's unit

    @property
    def setting(self) -> Setting:
        """The chosen setting."""
        return self.chosen.setting

    def tell(self, system: str) -> None:
        """Log it, as that of a system."""
        points = f"{self.measure} {100 * self.chosen.value:.1f} on {self.queries} dev queries"
        log.info("%s: %s, the best of %d settings: %s", system, shown(self.setting), len(self.tried), points)


def read_choice(folder: Path) -> Choice:
    """The choice of an artifact."""
    return read_json(folder / CHOICE, Choice)


def shown(setting: Setting) -> str:
    """A setting in a line."""
    return ", ".join(f"{name} {value if isinstance(value, str) else f'{value:.3g}'}" for name, value in setting.items())


@dataclass(frozen=True, kw_only=True)
class DevQueries:
    """Dev queries that choose, by a measure of their `depth` best passages."""

    rows: Rows  # (n,), ascending
    measure: str
    depth: int
    values: Callable[[Iterable[Rows]], list[float]]  # the measure's mean for each ranking of these: (n, k), -1: none


def best_on_dev(settings: list[Setting], rankings: Iterable[Rows], dev: DevQueries) -> Choice:
    """The setting with the best ranking of the dev queries; of equally good ones the first."""
    values = dev.values(rankings)
    tried = [Tried(setting=setting, value=value) for setting, value in zip(settings, values, strict=True)]
    chosen = max(tried, key=lambda one: one.value)
    return Choice(measure=dev.measure, queries=len(dev.rows), chosen=chosen, tried=tried)


def ranked_anew(
    candidates: Mapping[str, Candidates], settings: list[Setting], dev: DevQueries, *, depth: int
) -> tuple[Choice, dict[str, Ranking]]:
    """The setting that ranks the candidates of the split `dev` best, and split -> its `depth` best passages."""
    passages, scores = candidates["dev"]
    of_sample = passages[dev.rows]
    choice = best_on_dev(settings, (top(of_sample, scores(one)[dev.rows], dev.depth)[0] for one in settings), dev)
    return choice, {split: top(of, scores(choice.setting), depth) for split, (of, scores) in candidates.items()}


def union(first: Rows, second: Rows) -> tuple[Rows, Rows, Rows]:
    """The passages that either of two rankings has, each once a query.

    *Shape:* (n, a), (n, b) -> (n, a + b) three times: passages, padded with -1 anywhere; their columns in `first`; in
    `second`. A column is -1 where the ranking does not have the passage.
    """
    passages = np.concatenate([first, second], axis=1)
    order = np.argsort(passages, axis=1, kind="stable")  # a passage of both stands first as that of `first`
    passages, width = np.take_along_axis(passages, order, axis=1), first.shape[1]
    in_first = np.where(order < width, order, -1)
    in_second = np.where(order >= width, order - width, -1)
    again = np.zeros(passages.shape, dtype=bool)
    again[:, 1:] = (passages[:, 1:] == passages[:, :-1]) & (passages[:, 1:] >= 0)
    in_second[:, :-1] = np.where(again[:, 1:], in_second[:, 1:], in_second[:, :-1])
    passages[again] = -1
    return passages, in_first, in_second


def taken(columns: Rows, values: Scores, otherwise: Scores) -> Scores:
    """`values` at `columns`; `otherwise` where a column is -1. *Shape:* (n, c), (n, a), (n,) -> (n, c)."""
    return np.take_along_axis(np.concatenate([values, otherwise[:, None]], axis=1), columns, axis=1)
