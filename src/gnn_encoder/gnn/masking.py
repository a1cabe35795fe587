"""Masked Graph Training: which queries train, on what, and which are in the graph (section 3.4, Alg. 1, lines 3-6)."""

from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.matrix import Rows, spans
from gnn_encoder.gnn.graph import Graph
from gnn_encoder.pipeline.params import Passes, PhaseOne
from gnn_encoder.train.dev import DevSample
from gnn_encoder.train.examples import Examples, TrainingBatch, draw_batch, local_share, steps_of

WHOLE = 50_000  # a corpus of at most so many passages is in a softmax over the corpus whole
SAMPLE = 16_384  # random passages of a larger one


class Step(NamedTuple):
    """The items of the examples that train in one step, and all of their fold Q_t if these are masked, or else none."""

    items: Rows
    fold: Rows


class MaskedSchedule:
    """The steps of some epochs. Each epoch splits the queries at random into about 1 / beta folds.

    Each fold in turn is Q_t and trains in batches, while all other queries are Q_g: this is one round. With a beta of
    5% an epoch has 20 rounds. What trains without masks, as the control does, has the same steps, so that nothing but
    the method differs.

    Of the `epochs` the last may end early. They go on `after` those that another phase has trained before. With
    `masked` a step names its fold; if not, it masks nothing.
    """

    def __init__(
        self,
        n_items: int,
        *,
        epochs: float,
        batch_size: int,
        beta: float,
        seed: int,
        after: float = 0,
        masked: bool = True,
    ) -> None:
        self.rounds_per_epoch = fold_count(beta)
        if n_items < self.rounds_per_epoch:
            need = f"{self.rounds_per_epoch} folds need at least {self.rounds_per_epoch} training queries"
            raise UserError(f"mgt.beta is {beta}: {need}, there are {n_items}; raise mgt.beta or add queries")
        self._items, self._batch_size, self._seed, self._masked = np.arange(n_items), batch_size, seed, masked
        self._epochs, self._after = epochs, ceil(after)
        self._at: tuple[int, list[Step]] = (self._after, self._pass(self._after))

    def __len__(self) -> int:
        return steps_of(self._epochs, len(self._at[1]))

    @property
    def before(self) -> int:
        """Steps of the epochs before, as if the last were whole."""
        return self._after * len(self._at[1])

    def __getitem__(self, number: int) -> Step:
        if not 0 <= number < len(self):
            raise IndexError(f"step {number}: there are {len(self)}")  # which also ends a loop over the schedule
        epoch, within = divmod(self.before + number, len(self._at[1]))
        if epoch != self._at[0]:
            self._at = (epoch, self._pass(epoch))
        return self._at[1][within]

    def _pass(self, epoch: int) -> list[Step]:
        order = np.random.default_rng([self._seed, epoch]).permutation(self._items)
        return [
            Step(items, fold if self._masked else fold[:0])
            for fold in np.array_split(order, self.rounds_per_epoch)
            for items in np.array_split(fold, max(1, round(len(fold) / self._batch_size)))
        ]


def fold_count(beta: float) -> int:
    """The number of folds that each hold a share `beta` of the queries: about 1 / beta."""
    return round(1 / beta)


def propagation_mask(n: int, masked: Rows) -> NDArray[np.bool_]:
    """True for the queries that are in the graph: all but the masked ones. *Shape:* (n,)."""
    mask = np.ones(n, dtype=bool)
    mask[masked] = False
    return mask


def check_no_leak(masked: Rows, reachable_queries: Rows) -> None:
    """Raise a RuntimeError if a masked query informs passages, against which it trains. *Shape:* (b,), (E,)."""
    leaked = np.intersect1d(masked, reachable_queries)
    if len(leaked):
        raise RuntimeError(f"{len(leaked)} masked queries can be reached in the graph, such as row {leaked[0]}")


@dataclass(frozen=True)
class CorpusSample:
    """The passages that a step scores. *Shape:* (c,) both; passages ascend.

    `stands_for` has the logarithm of how many passages of the corpus each stands for: 0 where it is itself alone.
    """

    passages: Rows
    stands_for: NDArray[np.float32]

    @classmethod
    def draw(cls, n_passages: int, certain: Rows, generator: np.random.Generator) -> "CorpusSample":
        """All passages of a small corpus; of a large one those that are `certain` and a random sample of the rest."""
        if n_passages <= WHOLE:
            return cls(np.arange(n_passages), np.zeros(n_passages, dtype=np.float32))
        certain = np.unique(certain)
        drawn = np.setdiff1d(generator.integers(n_passages, size=SAMPLE), certain)
        others = n_passages - len(certain)
        passages = np.concatenate([certain, drawn])
        stands_for = np.zeros(len(passages), dtype=np.float32)
        stands_for[len(certain) :] = np.log(others / max(1, len(drawn)))
        order = np.argsort(passages)
        return cls(passages[order], stands_for[order])


def positives_of(examples: Examples, items: Rows) -> tuple[Rows, Rows, NDArray[np.float32]]:
    """All positives of some items: the place of their item, their rows, and their weights, which add up to 1 a query.

    *Shape:* (b,) -> (p,) three times.
    """
    first = examples.positives.offsets[items]
    at, query = spans(first, examples.positives.offsets[items + 1] - first)
    weight = np.ones(len(at)) if examples.weights is None else examples.weights[at]
    weight = weight / np.bincount(query, weights=weight, minlength=len(items))[query]
    return query, examples.positives.values[at], weight.astype(np.float32)


@dataclass(frozen=True, kw_only=True)
class Supervision:
    """What both phases and the control train on: the same queries, the same drawn passages, the same dev sample."""

    examples: Examples
    schedule: MaskedSchedule
    negatives: int
    seed: int
    dev: DevSample

    def __len__(self) -> int:
        return len(self.schedule)

    def batch(self, number: int) -> tuple[TrainingBatch, Rows]:
        """The batch of step `number`, of all ranks, and the queries of its fold Q_t, which are masked."""
        items, masked = self.items(number)
        return draw_batch(self.examples, items, self.negatives, self._generator(number)), masked

    def items(self, number: int) -> tuple[Rows, Rows]:
        """The items of step `number`, and the masked queries."""
        items, fold = self.schedule[number]
        return items, self.examples.queries[fold]

    def scored(self, number: int, graph: Graph) -> CorpusSample:
        """The passages that step `number` scores."""
        items, _ = self.schedule[number]
        _, positives, _ = positives_of(self.examples, items)
        retrieved = graph.passages[self.examples.queries[items]]
        certain = np.concatenate([positives, retrieved.reshape(-1)])
        return CorpusSample.draw(graph.m, certain, self._generator(number))

    def _generator(self, number: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, self.schedule.before + number])


def supervise(
    examples: Examples,
    dev: DevSample,
    mgt: PhaseOne,
    phase: Passes,
    seed: int,
    *,
    after: float = 0,
    masked: bool | None = None,
) -> Supervision:
    """The steps of a phase, with what they train on. Arguments: `MaskedSchedule`."""
    schedule = MaskedSchedule(
        len(examples),
        epochs=phase.epochs,
        batch_size=phase.batch_size,
        beta=mgt.beta,
        seed=seed,
        after=after,
        masked=mgt.masking == "mgt" if masked is None else masked,
    )
    if len(schedule):
        local_share(schedule[0].items)  # too many processes are told before the training
    return Supervision(examples=examples, schedule=schedule, negatives=mgt.negatives, seed=seed, dev=dev)
