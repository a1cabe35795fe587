"""Large batches on small devices by gradient caching (GradCache, Gao et al. 2021, arXiv:2101.06983).

A batch is first encoded in chunks of texts of like length, without autograd. The loss of all embeddings together gives
each embedding its gradient. Each chunk is then encoded again, now with autograd, and passes the gradients of its
embeddings on to the encoder. This takes the memory of one chunk and yields the gradients of the whole batch.
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gnn_encoder.text.batches import Batch, padded

Encode = Callable[[Batch], Tensor]


class Representations:
    """Embeddings of the queries or of the passages of a batch.

    `value` is a leaf tensor, on which a loss collects gradient; `backward` passes that gradient on to the encoder.

    Args:
        chunk_tokens: padded tokens of a chunk.
    """

    def __init__(self, encode: Encode, batch: Batch, chunk_tokens: int) -> None:
        self._encode, self._batch = encode, batch
        self.chunks = _chunks(batch.lengths, chunk_tokens)
        if len(self.chunks) == 1:  # encoding it twice would save no memory: keep the autograd graph
            self._graph = encode(batch)
            self.value = self._graph.detach().requires_grad_()
            return
        self._states, parts = [], []
        with torch.no_grad():
            for chunk in self.chunks:
                self._states.append(_random_state())
                parts.append(encode(batch.part(chunk)))
        value = torch.cat(parts)
        self.value = value[torch.from_numpy(np.concatenate(self.chunks)).argsort().to(value.device)].requires_grad_()

    def backward(self) -> None:
        """Pass the gradient that `value` has collected on to the encoder's parameters."""
        gradient = self.value.grad
        if gradient is None:
            return
        if len(self.chunks) == 1:
            self._backward(self._graph, gradient)
            return
        for chunk, state in zip(self.chunks, self._states, strict=True):
            # The second pass must draw the same dropout as the first, and then restore the random state.
            after = _random_state()
            _set_random_state(state)
            vectors = self._encode(self._batch.part(chunk))
            _set_random_state(after)
            self._backward(vectors, gradient[torch.from_numpy(chunk).to(gradient.device)])

    @staticmethod
    def _backward(vectors: Tensor, gradient: Tensor) -> None:
        if vectors.requires_grad:
            vectors.backward(gradient)


def _chunks(lengths: NDArray[np.int64], chunk_tokens: int) -> list[NDArray[np.int64]]:
    """Places of the texts in chunks of about `chunk_tokens`, longest first, if none is padded to more than its own."""
    order = np.argsort(-lengths, kind="stable")
    chunk = (np.cumsum(padded(lengths[order])) - 1) // chunk_tokens
    return np.split(order, np.flatnonzero(np.diff(chunk)) + 1)


def _random_state() -> tuple[Tensor, Tensor | None]:
    return torch.get_rng_state(), torch.cuda.get_rng_state() if torch.cuda.is_available() else None


def _set_random_state(state: tuple[Tensor, Tensor | None]) -> None:
    torch.set_rng_state(state[0])
    if state[1] is not None:
        torch.cuda.set_rng_state(state[1])
