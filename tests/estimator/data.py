"""Passages whose vectors are off their meaning, and queries that ask for one each."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnn_encoder import GNNEncoder
from gnn_encoder.base.matrix import Matrix, of_length_1

M, N, D = 80, 320, 8
SMALL: dict[str, Any] = {"k": 4, "heads": 2, "beta": 0.25, "steps": 8, "batch_size": 32, "seed": 3}


@dataclass(frozen=True)
class Data:
    passages: NDArray[Any]
    queries: Matrix
    labels: Any  # (n, 2)
    dev: Matrix
    dev_labels: Any

    def fit(self, **changes: Any) -> GNNEncoder:
        """`changes`: parameters of the estimator."""
        return self.into(GNNEncoder(**(SMALL | changes)))

    def into(self, gnn: GNNEncoder, **more: Any) -> GNNEncoder:
        return gnn.fit(self.passages, self.queries, self.labels, dev=(self.dev, self.dev_labels), **more)

    def right(self, passages: Matrix) -> float:
        """Share of dev queries that find their passage first."""
        return float((np.argmax(self.dev @ passages.T, axis=1) == self.dev_labels[:, 1]).mean())


def made() -> Data:
    draw = np.random.default_rng(0)
    meaning = draw.normal(size=(M, D))
    passages = of_length_1(meaning + 1.5 * draw.normal(size=(M, D)))
    asked, dev = draw.integers(M - 10, size=N), draw.integers(M - 10, size=100)  # nobody asks for the last ten
    vectors = [of_length_1(meaning[rows] + 0.7 * draw.normal(size=(len(rows), D))) for rows in (asked, dev)]
    labels = [np.stack([np.arange(len(rows)), rows], axis=1) for rows in (asked, dev)]
    return Data(passages, vectors[0], labels[0], vectors[1], labels[1])


DATA = made()
