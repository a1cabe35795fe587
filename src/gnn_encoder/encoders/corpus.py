"""The corpus as a matrix on disk: E_P over every passage, window by window, resumable, over all devices."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from tqdm import tqdm

from gnn_encoder import distributed
from gnn_encoder.encoders.dual_encoder import DualEncoder
from gnn_encoder.encoders.streaming import WINDOW, Prepared, encode_prepared, prefetch, prepare_window
from gnn_encoder.encoders.tokens import Batch, TextTokens, single_batch
from gnn_encoder.storage.arrays import ArrayManifest, ArrayWriter, iterate_blocks, read_manifest
from gnn_encoder.storage.fingerprint import fingerprint

Rows = NDArray[np.integer[Any]]
Transform = Callable[[int, NDArray[np.float32]], NDArray[np.float32]]


def encode_corpus(
    encoder: DualEncoder,
    tokens: TextTokens,
    folder: Path,
    *,
    dtype: str,
    batch_tokens: int,
    manifest: dict[str, str],
    transform: Transform = lambda first, embeddings: embeddings,
) -> None:
    """Write the passage matrix of a corpus.

    Args:
        folder: scratch folder of the matrix; windows that an interrupted run finished there are kept.
        manifest: `model_fingerprint` and `input_fingerprint`.
        transform: what a window's embeddings (from row `first` on) become before they are written.
    """
    rows = len(tokens)
    if distributed.is_first():
        ArrayWriter(folder, (rows, encoder.dimension), dtype)
    distributed.barrier()
    writer = ArrayWriter(folder, (rows, encoder.dimension), dtype, rank=distributed.rank())
    distributed.barrier()
    firsts = [first for first in range(0, rows, WINDOW) if first not in writer.done]
    mine = firsts[distributed.rank() :: distributed.world_size()]
    length = encoder.settings.passage_length

    def prepare(first: int) -> Prepared:
        window = np.arange(first, min(rows, first + WINDOW))
        prepared = prepare_window(
            lambda positions: single_batch(tokens, window[positions], encoder.template, length),
            tokens.lengths(window, length),
            batch_tokens,
        )
        tokens.release()
        return prepared

    done = rows - _rows(firsts, rows)
    with writer, tqdm(total=rows, initial=done, desc="encode passages", unit=" passages", disable=None) as bar:
        for first, prepared in prefetch(prepare, mine):
            size = min(rows, first + WINDOW) - first
            writer.write(first, transform(first, encode_prepared(prepared, size, encoder.encode_passages)))
            bar.update(size * distributed.world_size())
    distributed.barrier()
    if distributed.is_first():
        _finish(writer, (rows, encoder.dimension), dtype, manifest)


def transform_corpus(source: Path, folder: Path, *, dtype: str, manifest: dict[str, str], transform: Transform) -> None:
    """Write the transformed rows of an existing passage matrix, window by window, on the first device."""
    if distributed.is_first():
        shape = read_manifest(source).shape
        with ArrayWriter(folder, shape, dtype) as writer:
            for first, block in iterate_blocks(source, WINDOW):
                if first not in writer.done:
                    writer.write(first, transform(first, block))
        _finish(writer, shape, dtype, manifest)
    distributed.barrier()


def _finish(writer: ArrayWriter, shape: tuple[int, int], dtype: str, manifest: dict[str, str]) -> None:
    key = fingerprint(dtype=dtype, **manifest)
    model, source = manifest["model_fingerprint"], manifest["input_fingerprint"]
    writer.finish(
        ArrayManifest(shape=shape, dtype=dtype, model_fingerprint=model, input_fingerprint=source, fingerprint=key)
    )


def embed_questions(
    encoder: DualEncoder, tokens: TextTokens, batch_tokens: int, rows: Rows | None = None
) -> NDArray[np.float32]:
    """E_Q over rows of a table of questions, by default all. *Shape:* (n, d)."""
    length = encoder.settings.query_length
    chosen = np.arange(len(tokens)) if rows is None else rows
    return _embed(encoder, tokens, chosen, length, encoder.encode_queries, batch_tokens)


def embed_passages(encoder: DualEncoder, tokens: TextTokens, batch_tokens: int, rows: Rows) -> NDArray[np.float32]:
    """E_P over some passages. *Shape:* (n, d)."""
    return _embed(encoder, tokens, rows, encoder.settings.passage_length, encoder.encode_passages, batch_tokens)


def _embed(
    encoder: DualEncoder,
    tokens: TextTokens,
    rows: Rows,
    length: int,
    encode: Callable[[Batch], Tensor],
    batch_tokens: int,
) -> NDArray[np.float32]:
    if len(rows) == 0:
        return np.empty((0, encoder.dimension), dtype=np.float32)

    def make(positions: NDArray[np.int64]) -> Batch:
        return single_batch(tokens, rows[positions], encoder.template, length)

    return encode_prepared(prepare_window(make, tokens.lengths(rows, length), batch_tokens), len(rows), encode)


def _rows(firsts: list[int], rows: int) -> int:
    return sum(min(rows, first + WINDOW) - first for first in firsts)
