"""A loss whose softmax goes over the corpus, which phase one can afford since all embeddings are cached.

    L(q) = -mean over q's positives p+ of log( e^{s(q,p+)} / sum over the corpus of e^{s(q,p)} )

Eq. 12 has the batch's passages in place of the corpus. Above some size the sum is estimated: the passages that the
batch's queries retrieve or are labelled with count as they are, and a random sample stands for all others.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gnn_encoder.base.matrix import Rows, spans
from gnn_encoder.train.examples import Examples

WHOLE = 50_000  # a corpus of at most so many passages is read whole
SAMPLE = 16_384  # random passages of a larger one


@dataclass(frozen=True)
class CorpusSample:
    """The passages that a step scores. *Shape:* (c,) both; passages ascend.

    `stands_for` has the logarithm of how many passages of the corpus each stands for: 0 where it is itself alone.
    """

    passages: Rows
    stands_for: NDArray[np.float32]

    @classmethod
    def draw(
        cls, n_passages: int, certain: Rows, whole: int, size: int, generator: np.random.Generator
    ) -> "CorpusSample":
        """A corpus of at most `whole` passages, or of a larger one `certain` and about `size` random ones."""
        if n_passages <= whole:
            return cls(np.arange(n_passages), np.zeros(n_passages, dtype=np.float32))
        certain = np.unique(certain)
        drawn = np.setdiff1d(generator.integers(n_passages, size=size), certain)
        others = n_passages - len(certain)
        passages = np.concatenate([certain, drawn])
        stands_for = np.zeros(len(passages), dtype=np.float32)
        stands_for[len(certain) :] = np.log(others / max(1, len(drawn)))
        order = np.argsort(passages)
        return cls(passages[order], stands_for[order])

    def spared(self, items: Rows, examples: Examples) -> tuple[Rows, Rows]:
        """Pairs of an item and a passage that is no negative of it, as a copy of a relevant one: places, columns.

        *Shape:* (b,) -> (s,) twice.
        """
        passages, item = examples.spared_unlabelled(examples.queries[items])
        column = np.searchsorted(self.passages, passages).clip(max=len(self.passages) - 1)
        inside = self.passages[column] == passages
        return item[inside], column[inside]


def corpus_loss(
    queries: Tensor,
    passages: Tensor,
    sample: CorpusSample,
    items: Rows,
    examples: Examples,
    scale: Tensor | float,
    *,
    of: int,
) -> Tensor:
    """The part of the mean loss over a batch of `of` items that some of them, this rank's, have.

    Positives count by their weights where they have some, and alike where not.

    Args:
        queries: of the items. *Shape:* (b, d).
        passages: of the sample, which holds all positives of the items. *Shape:* (c, d).
        items: which examples these are. *Shape:* (b,).
    """
    logits = scale * queries @ passages.T + torch.from_numpy(sample.stands_for).to(passages.device)
    spared = tuple(torch.from_numpy(at).to(passages.device) for at in sample.spared(items, examples))
    logits = logits.index_put(spared, logits.new_tensor(-torch.inf)) if len(spared[0]) else logits
    query, passage, weight = positives_of(examples, items)
    column = torch.from_numpy(np.searchsorted(sample.passages, passage)).to(passages.device)
    row, share = torch.from_numpy(query).to(passages.device), torch.from_numpy(weight).to(passages.device)
    found = (logits.log_softmax(dim=1)[row, column] * share).sum()
    return -found / of


def positives_of(examples: Examples, items: Rows) -> tuple[Rows, Rows, NDArray[np.float32]]:
    """All positives of some items: the place of their item, their rows, and their weights, which add up to 1 a query.

    *Shape:* (b,) -> (p,) three times.
    """
    first = examples.positives.offsets[items]
    at, query = spans(first, examples.positives.offsets[items + 1] - first)
    weight = np.ones(len(at)) if examples.weights is None else examples.weights[at]
    weight = weight / np.bincount(query, weights=weight, minlength=len(items))[query]
    return query, examples.positives.values[at], weight.astype(np.float32)
