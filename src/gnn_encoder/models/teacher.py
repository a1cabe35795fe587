"""The teacher's score of a query and a passage: M_ce's logit, with or without the retriever's score, as a probability.

    p(q, p) = sigmoid(a logit(q, p) + b s(q, p) + c)

The papers' teacher is M_ce alone, a = 1 and b = c = 0. Other numbers are fitted on labelled dev queries:
`gnn_encoder.training.teacher`.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from gnn_encoder.core.storage.atomic import write_json

FILE = "teacher.json"  # in the folder of M_ce


@dataclass(frozen=True, kw_only=True)
class Teacher:
    """The numbers a, b and c."""

    cross_encoder: float = 1.0
    retriever: float = 0.0
    shift: float = 0.0

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Of the folder of an M_ce; without a file it is M_ce alone."""
        path = folder / FILE
        return cls(**json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else cls()

    def save(self, folder: Path) -> None:
        """Write it beside M_ce."""
        write_json(folder / FILE, asdict(self))

    def logits(self, logits: NDArray[Any], retrieved: NDArray[Any] | None) -> NDArray[np.float64]:
        """The log odds that passages are relevant.

        Args:
            logits: M_ce's.
            retrieved: the retriever's scores; None is enough for a teacher that does not read them.

        *Shape:* (n,), (n,) -> (n,).
        """
        found = self.cross_encoder * logits.astype(np.float64) + self.shift
        if self.retriever:
            if retrieved is None:
                raise ValueError("this teacher reads the retriever's scores")
            found = found + self.retriever * retrieved
        return found

    def probability(self, logits: NDArray[Any], retrieved: NDArray[Any] | None) -> NDArray[np.float32]:
        """Relevance in 0..1, which thresholds apply to. *Shape:* as `logits`."""
        return torch.from_numpy(self.logits(logits, retrieved)).sigmoid().float().numpy()
