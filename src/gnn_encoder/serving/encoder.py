"""Query embeddings of many texts at once without torch, for a server whose queries come together.

Texts are packed, not padded: their tokens are the rows of one matrix, so that each layer multiplies by its weights once
for all texts. Attention alone, which costs little, is computed on padded texts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from gnn_encoder.core.storage.fingerprint import fingerprint
from gnn_encoder.models.quick import SETTINGS, Floats, QuickEncoder
from gnn_encoder.searcher import QueryEncoder, load_encoder

ROWS_IN_CACHE = 64  # rows of states whose GELU is computed at a time
MASKED = np.float32(-1e9)


@dataclass(frozen=True)
class Embedded:
    """Embeddings of some texts, and how many tokens of each were read, special ones included.

    *Shape:* vectors (n, d), tokens (n,).
    """

    vectors: Floats
    tokens: NDArray[np.int64]

    def take(self, rows: Sequence[int]) -> "Embedded":
        """Those of some texts. *Shape:* (n, d), (n,) -> (rows, d), (rows,)."""
        places = np.array(rows, dtype=np.int64)
        return Embedded(self.vectors[places], self.tokens[places])


@dataclass(frozen=True)
class Packing:
    """Where the tokens of some texts are.

    Attributes:
        starts: row of each text's first token in the packed matrix. *Shape:* (n,).
        lengths: tokens of each text. *Shape:* (n,).
        slots: place of each token among the padded texts, laid end to end. *Shape:* (tokens,).
    """

    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    slots: NDArray[np.int64]

    @classmethod
    def of(cls, lengths: NDArray[np.int64]) -> "Packing":
        """Pack texts of these lengths."""
        starts = np.cumsum(lengths) - lengths
        within = np.arange(lengths.sum()) - np.repeat(starts, lengths)
        return cls(starts, lengths, np.repeat(np.arange(len(lengths)), lengths) * lengths.max() + within)

    @property
    def positions(self) -> NDArray[np.int64]:
        """Place of each token in its text. *Shape:* (tokens,)."""
        found: NDArray[np.int64] = self.slots % self.lengths.max()
        return found

    @property
    def mask(self) -> Floats:
        """0 where a padded text has a token, else a large negative number. *Shape:* (n, 1, 1, longest)."""
        there = np.arange(self.lengths.max()) < self.lengths[:, None]
        return np.where(there, np.float32(0), MASKED)[:, None, None]

    def pad(self, packed: Floats) -> Floats:
        """*Shape:* (tokens, d) -> (n, longest, d)."""  # noqa: D400 (a shape says it all)
        padded = np.zeros((len(self.lengths) * self.lengths.max(), packed.shape[1]), np.float32)
        padded[self.slots] = packed
        return padded.reshape(len(self.lengths), -1, packed.shape[1])

    def unpad(self, padded: Floats) -> Floats:
        """*Shape:* (n, longest, d) -> (tokens, d)."""  # noqa: D400
        found: Floats = padded.reshape(-1, padded.shape[2])[self.slots]
        return found


class PackedEncoder(QuickEncoder):
    """A `QuickEncoder` that reads many texts at once."""

    def embed_queries(self, texts: Sequence[str]) -> Floats:
        """As `DualEncoder.embed_queries`. *Shape:* (n, d)."""
        return self.embed(texts).vectors

    def embed(self, texts: Sequence[str]) -> Embedded:
        """The same, with the tokens that were read."""
        whole = [self._prefix + text for text in texts]
        ids = [encoding.ids for encoding in self._tokenizer.encode_batch_fast(whole)]
        packing = Packing.of(np.array([len(tokens) for tokens in ids]))
        states = self._packed(np.concatenate(ids), packing)  # (tokens, d)
        vectors: Floats = states[packing.starts]
        if self._mean:
            vectors = np.add.reduceat(states, packing.starts, axis=0)
            vectors /= packing.lengths[:, None].astype(np.float32)
        if self._cosine:
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True).clip(min=1e-12)
        return Embedded(vectors, packing.lengths)

    def _packed(self, ids: NDArray[np.int64], packing: Packing) -> Floats:
        w = self._weights
        states = w["embeddings.word_embeddings.weight"][ids]
        states += w["embeddings.position_embeddings.weight"][packing.positions]
        states = self._normalise(states + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        for layer in range(self._config["num_hidden_layers"]):
            name = f"encoder.layer.{layer}"
            attended = self._attend_padded(states, f"{name}.attention.self", packing)
            attended = self._linear(attended, f"{name}.attention.output.dense")
            states = self._normalise(states + attended, f"{name}.attention.output.LayerNorm")
            inner = gelu(self._linear(states, f"{name}.intermediate.dense").T).T  # contiguous as it stands there
            states = self._normalise(states + self._linear(inner, f"{name}.output.dense"), f"{name}.output.LayerNorm")
        return states

    def _linear(self, inputs: Floats, name: str) -> Floats:
        """As (W x^T)^T, which OpenBLAS computes up to twice as fast as x W^T where `inputs` are few."""
        product: Floats = self._weights[f"{name}.weight"] @ inputs.T
        product += self._weights[f"{name}.bias"][:, None]
        return product.T

    def _attend_padded(self, states: Floats, name: str, packing: Packing) -> Floats:
        n_heads = self._config["num_attention_heads"]
        query, key, value = (
            packing.pad(self._linear(states, f"{name}.{part}"))
            .reshape(len(packing.lengths), -1, n_heads, states.shape[1] // n_heads)
            .swapaxes(1, 2)
            for part in ("query", "key", "value")
        )  # (n, heads, longest, d / heads)
        logits = query @ key.swapaxes(2, 3) / np.float32(np.sqrt(query.shape[-1])) + packing.mask
        weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        mixed = (weights @ value).swapaxes(1, 2)
        return packing.unpad(mixed.reshape(*mixed.shape[:2], -1))


def gelu(inputs: Floats) -> Floats:
    """X Phi(x) in place, with erf by 7.1.26 of Abramowitz and Stegun, whose error is below 1.5e-7.

    As x Phi(x) = max(x, 0) - |x| erfc(|x| / sqrt 2) / 2, the formula for positive numbers serves all. Each part is
    small enough for the processor's cache. *Shape:* (columns, tokens), contiguous.
    """
    for first in range(0, len(inputs), ROWS_IN_CACHE):
        x = inputs[first : first + ROWS_IN_CACHE]
        size = np.abs(x)
        t = np.reciprocal(size * np.float32(0.3275911 / np.sqrt(2)) + 1)
        tail = t * np.float32(1.061405429)
        for coefficient in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
            tail += np.float32(coefficient)
            tail *= t
        np.multiply(size, size, out=t)
        t *= np.float32(-0.5)
        tail *= np.exp(t, out=t)
        size *= np.float32(0.5)
        tail *= size
        np.maximum(x, 0, out=x)
        x -= tail
    return inputs


def embed(encoder: QueryEncoder, texts: Sequence[str]) -> Embedded:
    """Embed queries by an encoder of either kind: a packed one, or torch's `DualEncoder`."""
    if isinstance(encoder, PackedEncoder):
        return encoder.embed(texts)
    return Embedded(*encoder.embed_and_count(texts))  # type: ignore[attr-defined]


class Encoders:
    """The encoders in use. Systems whose encoders have equal weights share one, and one that none uses is dropped."""

    def __init__(self, otherwise: Callable[[Path], QueryEncoder] = load_encoder) -> None:
        self._otherwise = otherwise
        self._known: WeakValueDictionary[str, QueryEncoder] = WeakValueDictionary()

    def load(self, folder: Path) -> QueryEncoder:
        """The encoder of a folder: a packed one where the model is a plain BERT, else torch's."""
        files = [folder / name for name in (SETTINGS, "config.json", "tokenizer.json", "model.safetensors")]
        if not all(path.is_file() for path in files):
            return self._otherwise(folder)
        key = fingerprint(*files)
        found = self._known.get(key)
        if found is None:
            self._known[key] = found = PackedEncoder.open(folder) or self._otherwise(folder)
        return found
