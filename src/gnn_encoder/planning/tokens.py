"""How long texts are: what lengths of an encoder leave unread, and how wide its batches become."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gnn_encoder.encoding.tokens import padded


@dataclass(frozen=True)
class Tokens:
    """Tokens of each text of a random sample, special ones included. *Shape:* counts (n,), n > 0."""

    counts: NDArray[np.int64]

    @classmethod
    def of(cls, counts: Sequence[int] | NDArray[np.int64]) -> "Tokens":
        """From the counts in any order."""
        return cls(np.sort(np.asarray(counts, dtype=np.int64)))

    def whole(self, share: float) -> int:
        """The length at which this share of the texts is read whole."""
        return int(np.quantile(self.counts, share, method="inverted_cdf"))

    def longer(self, limit: int) -> float:
        """Share of the texts that have more than `limit` tokens."""
        return float((self.counts > limit).mean())

    def unread(self, limit: int) -> float:
        """Share of all tokens that come after the first `limit` of their text."""
        return float(np.maximum(self.counts - limit, 0).sum() / self.counts.sum())

    def mean(self, limit: int) -> float:
        """Mean padded tokens of a text in batches of similar lengths."""
        widths = np.minimum(padded(1) * -(-self.counts // padded(1)), limit)
        return float(widths.mean())

    def widest(self, texts: int, limit: int) -> int:
        """Padded tokens of the longest one of so many texts that are drawn at random: the width of their batch."""
        return min(limit, padded(self.whole(texts / (texts + 1))))


def pairs_of(queries: Tokens, passages: Tokens) -> Tokens:
    """Tokens of pairs of a query and a passage that are drawn independently; a pair has one special token less."""
    size = max(len(queries.counts), len(passages.counts))
    drawn = np.random.default_rng(0).permutation(size)
    first = np.resize(queries.counts, size)
    second = np.resize(passages.counts, size)[drawn]
    return Tokens.of(first + second - 1)
