"""How many tokens texts have, of a random sample that is drawn while the texts are streamed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from gnn_encoder.text.batches import padded


class Sample:
    """A uniform random sample of texts, of bounded size (Vitter 1985, algorithm R)."""

    def __init__(self, size: int, seed: int) -> None:
        self.texts: list[str] = []
        self.seen = 0
        self._size = size
        self._generator = np.random.default_rng(seed)

    def add(self, texts: list[str]) -> None:
        """Offer the next texts of the stream to the sample."""
        places = self._generator.integers(0, np.arange(self.seen, self.seen + len(texts)) + 1)
        for text, place in zip(texts, places.tolist(), strict=True):
            if len(self.texts) < self._size:
                self.texts.append(text)
            elif place < self._size:
                self.texts[place] = text
        self.seen += len(texts)


@dataclass(frozen=True)
class Lengths:
    """Tokens of each text of a sample, special ones included, in ascending order. *Shape:* counts (n,), n > 0.

    `unknown` is the share of the tokens that stand for characters which the model has no token for.
    """

    counts: NDArray[np.int64]
    unknown: float = 0.0

    @classmethod
    def of(cls, counts: Sequence[int] | NDArray[np.int64], unknown: float = 0.0) -> "Lengths":
        """From the counts in any order."""
        return cls(np.sort(np.asarray(counts, dtype=np.int64)), unknown)

    def whole(self, share: float) -> int:
        """The length at which this share of the texts is read whole."""
        return int(np.quantile(self.counts, share, method="inverted_cdf"))

    def longer(self, limit: int) -> float:
        """Share of the texts that have more than `limit` tokens."""
        return float((self.counts > limit).mean())

    def unread(self, limit: int) -> float:
        """Mean share of a text that comes after its first `limit` tokens; a few huge texts do not decide it."""
        return float(np.maximum(1 - limit / self.counts, 0).mean())

    def half(self) -> int:
        """How many texts, the longest ones, hold half of all tokens."""
        return int(np.searchsorted(self.counts[::-1].cumsum(), self.counts.sum() / 2)) + 1

    def mean(self, limit: int) -> float:
        """Mean padded tokens of a text in batches of similar lengths."""
        return float(np.minimum(padded(1) * -(-self.counts // padded(1)), limit).mean())


def measure(texts: list[str], tokenizer: PreTrainedTokenizerBase, prefix: str = "") -> Lengths | None:
    """The lengths of some texts with the prefix that the encoder reads before them; None if there are no texts."""
    if not texts:
        return None
    encoded = tokenizer._tokenizer.encode_batch_fast([prefix + text for text in texts], add_special_tokens=True)
    counts = [len(text.ids) for text in encoded]
    unknown = sum(text.ids.count(tokenizer.unk_token_id) for text in encoded)
    return Lengths.of(counts, unknown / sum(counts))
