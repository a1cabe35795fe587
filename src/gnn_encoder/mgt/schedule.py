"""Which queries train in each step, and which are masked in the graph meanwhile (Algorithm 1, lines 3-6)."""

from dataclasses import dataclass

import numpy as np

from gnn_encoder.core.rows import Rows
from gnn_encoder.graph.masking import fold_count, folds


@dataclass(frozen=True)
class Step:
    """The items of the examples that train in one step, and the fold Q_t that they belong to."""

    items: Rows
    fold: Rows  # all items of the fold, which are masked in the graph; empty if nothing is masked


class MaskedSchedule:
    """The steps of some epochs. Each epoch splits the queries into about 1 / beta folds.

    Each fold in turn is Q_t and trains in batches: this is one round. With a beta of 5% an epoch has 20 rounds. What
    trains without masks, as the control does, has the same steps, so that nothing but the method differs.

    Args:
        after: epochs that another phase has trained before: this one goes on with the next.
        masked: whether a step names its fold; if not, it masks nothing.
    """

    def __init__(
        self,
        n_items: int,
        *,
        epochs: int,
        batch_size: int,
        beta: float,
        seed: int,
        after: int = 0,
        masked: bool = True,
    ) -> None:
        self._items = np.arange(n_items)
        self._batch_size, self._beta, self._seed, self._masked = batch_size, beta, seed, masked
        self._at: tuple[int, list[Step]] = (after, self._pass(after))
        self.rounds_per_epoch = fold_count(beta)
        self._epochs, self._after = epochs, after

    def __len__(self) -> int:
        return self._epochs * len(self._at[1])

    @property
    def before(self) -> int:
        """Steps of the epochs before."""
        return self._after * len(self._at[1])

    def __getitem__(self, number: int) -> Step:
        if not 0 <= number < len(self):
            raise IndexError(f"step {number}: there are {len(self)}")  # which also ends a loop over the schedule
        epoch, within = divmod(self.before + number, len(self._at[1]))
        if epoch != self._at[0]:
            self._at = (epoch, self._pass(epoch))
        return self._at[1][within]

    def _pass(self, epoch: int) -> list[Step]:
        rounds = folds(self._items, beta=self._beta, seed=self._seed, epoch=epoch)
        return [Step(items, fold if self._masked else fold[:0]) for fold in rounds for items in self._batches(fold)]

    def _batches(self, fold: Rows) -> list[Rows]:
        return np.array_split(fold, max(1, round(len(fold) / self._batch_size)))
