"""Masked Graph Training: which queries train, on what, and which are in the graph (section 3.4, Alg. 1, lines 3-6)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.matrix import Rows
from gnn_encoder.gnn.graph import members
from gnn_encoder.pipeline.params import Alone, Joint, PhaseOne
from gnn_encoder.train.dev import DevSample
from gnn_encoder.train.examples import Examples, TrainingBatch, draw_batch, local_share

WHOLE = 50_000  # a corpus of at most so many passages is in a softmax over the corpus whole
SAMPLE = 16_384  # random passages of a larger one


class Step(NamedTuple):
    """The items of the examples that train in one step, and all of their fold Q_t if these are masked, or else none."""

    items: Rows
    fold: Rows


@dataclass(kw_only=True)
class MaskedSchedule:
    """The steps of a phase. Each pass splits the queries at random into about 1 / beta folds.

    Each fold in turn is Q_t and trains in batches, while all other queries are Q_g: this is one round. With a beta of
    5% a pass has 20 rounds. What trains without masks, as the control does, has the same steps, so that nothing but
    the method differs.
    """

    n_items: int
    steps: int
    batch_size: int
    beta: float
    seed: int
    before: int = 0  # steps that another phase has trained before, behind which these go on
    masked: bool = True  # whether a step names its fold; if not, it masks nothing

    def __post_init__(self) -> None:
        if self.n_items < self.rounds:
            need = f"{self.rounds} folds need at least {self.rounds} training queries"
            raise UserError(f"mgt.beta is {self.beta}: {need}, there are {self.n_items}; raise mgt.beta or add queries")
        self._at = 0, self._pass(0)

    @property
    def rounds(self) -> int:
        """Folds of a pass."""
        return fold_count(self.beta)

    def step(self, number: int) -> Step:
        """Step `number`, from 0 on. Where there are no steps, it is what they would be."""
        one, within = divmod(self.before + number, len(self._at[1]))
        if one != self._at[0]:
            self._at = one, self._pass(one)
        return self._at[1][within]

    def _pass(self, number: int) -> list[Step]:
        order = np.random.default_rng([self.seed, number]).permutation(self.n_items)
        return [
            Step(items, fold if self.masked else fold[:0])
            for fold in np.array_split(order, self.rounds)
            for items in np.array_split(fold, max(1, round(len(fold) / self.batch_size)))
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
    """The passages that a step scores. *Shape:* (c,) both; passages ascend, each once.

    `stands_for` has the logarithm of how many passages of the corpus each stands for: 0 where it is itself alone.
    """

    passages: Rows
    stands_for: NDArray[np.float32]

    @classmethod
    def draw(cls, n_passages: int, certain: Rows, size: int, generator: np.random.Generator) -> "CorpusSample":
        """The passages that are `certain`, and about `size` random ones, which stand for the rest."""
        certain = np.unique(certain)
        drawn = np.setdiff1d(generator.integers(n_passages, size=size), certain)
        passages = np.concatenate([certain, drawn])
        stands_for = np.zeros(len(passages), dtype=np.float32)
        stands_for[len(certain) :] = np.log((n_passages - len(certain)) / max(1, len(drawn)))
        order = np.argsort(passages)
        return cls(passages[order], stands_for[order])


def positives_of(examples: Examples, items: Rows) -> tuple[Rows, Rows, NDArray[np.float32]]:
    """All positives of some items: the place of their item, their rows, and their weights, which add up to 1 a query.

    *Shape:* (b,) -> (p,) three times.
    """
    at, query = members(examples.positives.offsets, items)
    weight = np.ones(len(at)) if examples.weights is None else examples.weights[at]
    weight = weight / np.bincount(query, weights=weight, minlength=len(items))[query]
    return query, examples.positives.values[at], weight.astype(np.float32)


@dataclass(frozen=True)
class Supervision:
    """What a phase, or the control, trains on, and the dev sample that scores it."""

    examples: Examples
    schedule: MaskedSchedule
    negatives: int
    seed: int
    dev: DevSample

    def __len__(self) -> int:
        return self.schedule.steps

    def batch(self, number: int) -> tuple[TrainingBatch, Rows]:
        """The batch of step `number`, of all ranks, and the queries of its fold Q_t, which are masked."""
        items, masked = self.items(number)
        return draw_batch(self.examples, items, self.negatives, self._generator(number)), masked

    def items(self, number: int) -> tuple[Rows, Rows]:
        """The items of step `number`, and the masked queries."""
        items, fold = self.schedule.step(number)
        return items, self.examples.queries[fold]

    def scored(self, number: int, near: Callable[[Rows], Rows]) -> CorpusSample:
        """The passages that step `number` scores: a small corpus whole, or else a sample.

        A sample certainly has all positives, and what is `near` the items, such as what their queries retrieve.
        """
        m = self.examples.n_passages
        if m <= WHOLE:
            return CorpusSample(np.arange(m), np.zeros(m, dtype=np.float32))
        items, _ = self.items(number)
        _, positives, _ = positives_of(self.examples, items)
        return CorpusSample.draw(m, np.concatenate([positives, near(items)]), SAMPLE, self._generator(number, 1))

    def _generator(self, number: int, *draw: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, self.schedule.before + number, *draw])


def supervise(
    examples: Examples,
    dev: DevSample,
    mgt: PhaseOne,
    phase: Alone | Joint,
    seed: int,
    *,
    before: int = 0,
    masked: bool | None = None,
) -> Supervision:
    """The steps of a phase, with what they train on. Arguments: `MaskedSchedule` and `Supervision`."""
    schedule = MaskedSchedule(
        n_items=len(examples),
        steps=phase.steps,
        batch_size=phase.batch_size,
        beta=mgt.beta,
        seed=seed,
        before=before,
        masked=mgt.masking == "mgt" if masked is None else masked,
    )
    if phase.steps:
        local_share(schedule.step(0).items)  # too many processes are told before the training
    return Supervision(examples, schedule, mgt.negatives, seed, dev)
