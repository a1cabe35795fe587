"""Masked Graph Training: which queries train, on what, and which are in the graph (section 3.4, Alg. 1, lines 3-6)."""

from collections.abc import Callable
from dataclasses import dataclass

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


class Supervision:
    """The steps of a phase, or of the control: what each trains on, and the dev sample that scores them.

    Each pass splits the queries at random into about 1 / beta folds. Each fold in turn is Q_t and trains in batches,
    while all other queries are Q_g: this is one round. With a beta of 5% a pass has 20 rounds. What trains without
    masks, as the control does, has as many steps, of as many queries. `masked` is instead of `mgt.masking`; these steps
    go on behind those that another phase has trained `before`.
    """

    def __init__(
        self,
        examples: Examples,
        dev: DevSample,
        mgt: PhaseOne,
        phase: Alone | Joint,
        seed: int,
        *,
        before: int = 0,
        masked: bool | None = None,
    ) -> None:
        self.examples, self.dev, self.seed, self.before = examples, dev, seed, before
        self.steps, self.batch_size, self.negatives = phase.steps, phase.batch_size, mgt.negatives
        self.masked = mgt.masking == "mgt" if masked is None else masked
        n, self.rounds = len(examples), fold_count(mgt.beta)
        if n < self.rounds:
            need = f"{self.rounds} folds need at least {self.rounds} training queries"
            raise UserError(f"mgt.beta is {mgt.beta}: {need}, there are {n}; raise mgt.beta or add queries")
        self._at = 0, self._pass(0)
        if self.steps:
            smallest = min((items for items, _ in self._at[1]), key=len)
            local_share(smallest)  # too many processes are told before the training

    def _pass(self, number: int) -> list[tuple[Rows, Rows]]:
        """Its steps: the items that train, and their whole fold."""
        order = np.random.default_rng([self.seed, number]).permutation(len(self.examples))
        return [
            (items, fold)
            for fold in np.array_split(order, self.rounds)
            for items in np.array_split(fold, max(1, round(len(fold) / self.batch_size)))
        ]

    def items(self, number: int) -> tuple[Rows, Rows]:
        """The items of step `number`, of all ranks, and the queries of their fold Q_t if these are masked, or none."""
        one, within = divmod(self.before + number, len(self._at[1]))
        if one != self._at[0]:
            self._at = one, self._pass(one)
        items, fold = self._at[1][within]
        return items, self.examples.queries[fold if self.masked else fold[:0]]

    def batch(self, number: int) -> tuple[TrainingBatch, Rows]:
        """The batch of step `number`, of all ranks, and the masked queries."""
        items, masked = self.items(number)
        return draw_batch(self.examples, items, self.negatives, self._generator(number)), masked

    @property
    def draws_passages(self) -> bool:
        """Whether a softmax over the corpus goes over a sample of it."""
        return self.examples.n_passages > WHOLE

    def scored(self, number: int, near: Callable[[Rows], Rows]) -> CorpusSample:
        """The passages that step `number` scores: a small corpus whole, or else a sample.

        A sample certainly has all positives, and what is `near` the items, such as what their queries retrieve.
        """
        m = self.examples.n_passages
        if not self.draws_passages:
            return CorpusSample(np.arange(m), np.zeros(m, dtype=np.float32))
        items, _ = self.items(number)
        _, positives, _ = positives_of(self.examples, items)
        return CorpusSample.draw(m, np.concatenate([positives, near(items)]), SAMPLE, self._generator(number, 1))

    def _generator(self, number: int, *draw: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, self.before + number, *draw])
