"""How many tokens texts have, measured on a random sample that is drawn while the texts are streamed."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase


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


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """Tokens a text, special ones included."""

    texts: int  # texts that were measured
    of: int  # texts that there are
    mean: float
    median: int
    most: int  # 99% of the texts have this many tokens or fewer
    longest: int
    limit: int
    cut: float  # share that is longer than the limit


def count_tokens(texts: list[str], tokenizer: PreTrainedTokenizerBase, prefix: str = "") -> NDArray[np.int64]:
    """Tokens of each text with the prefix before it, special ones included. *Shape:* (n,)."""
    encoded = tokenizer._tokenizer.encode_batch_fast([prefix + text for text in texts], add_special_tokens=True)
    return np.array([len(text.ids) for text in encoded], dtype=np.int64)


def measure(sample: Sample, tokenizer: PreTrainedTokenizerBase, limit: int, prefix: str = "") -> Lengths | None:
    """Lengths of a sample's texts; None if the sample is empty.

    Args:
        limit: tokens that the encoder reads.
        prefix: what it reads before each text.
    """
    if not sample.texts:
        return None
    tokens = count_tokens(sample.texts, tokenizer, prefix)
    median, most = np.quantile(tokens, [0.5, 0.99], method="inverted_cdf").tolist()
    return Lengths(
        texts=len(tokens),
        of=sample.seen,
        mean=float(tokens.mean()),
        median=median,
        most=most,
        longest=int(tokens.max()),
        limit=limit,
        cut=float((tokens > limit).mean()),
    )
