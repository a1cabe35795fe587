"""Large batches on small devices by gradient caching (GradCache, Gao et al. 2021, arXiv:2101.06983).

A batch is first encoded in chunks, without autograd. The loss of all embeddings together gives each embedding its
gradient. Each chunk is then encoded again, now with autograd, and the gradients of its embeddings are passed on to the
encoder. This takes the memory of one chunk and yields the gradients of the whole batch.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from gnn_encoder.models.batch import Batch

Encode = Callable[[Batch], Tensor]


class Representations:
    """Embeddings of the queries or of the passages of a batch.

    `value` is a leaf tensor, on which a loss collects gradient; `backward` passes that gradient on to the encoder.
    """

    def __init__(self, encode: Encode, chunks: Sequence[Batch]) -> None:
        self._encode = encode
        self._chunks = chunks
        if len(chunks) == 1:  # encoding it twice would save no memory: keep the autograd graph
            self._graph = encode(chunks[0])
            self.value = self._graph.detach().requires_grad_()
            return
        self._states = []
        parts = []
        with torch.no_grad():
            for chunk in chunks:
                self._states.append(_random_state())
                parts.append(encode(chunk))
        self.value = torch.cat(parts).requires_grad_()

    def backward(self) -> None:
        """Pass the gradient that `value` has collected on to the encoder's parameters."""
        if self.value.grad is None:
            return
        if len(self._chunks) == 1:
            self._backward(self._graph, self.value.grad)
            return
        first = 0
        for chunk, state in zip(self._chunks, self._states, strict=True):
            # The second pass must draw the same dropout as the first, and then restore the random state.
            after = _random_state()
            _set_random_state(state)
            vectors = self._encode(chunk)
            _set_random_state(after)
            self._backward(vectors, self.value.grad[first : first + len(vectors)])
            first += len(vectors)

    @staticmethod
    def _backward(vectors: Tensor, gradient: Tensor) -> None:
        if vectors.requires_grad:
            vectors.backward(gradient)


def _random_state() -> tuple[Tensor, Tensor | None]:
    return torch.get_rng_state(), torch.cuda.get_rng_state() if torch.cuda.is_available() else None


def _set_random_state(state: tuple[Tensor, Tensor | None]) -> None:
    torch.set_rng_state(state[0])
    if state[1] is not None:
        torch.cuda.set_rng_state(state[1])
