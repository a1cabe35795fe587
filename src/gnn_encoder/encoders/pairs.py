"""A cross-encoder over many pairs: windows sorted by length, results in the pairs' order, parts kept over a kill."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from torch import Tensor

from gnn_encoder.core.storage.tables import write_table
from gnn_encoder.encoders.cross_encoder import CrossEncoder
from gnn_encoder.encoders.inputs import Couples
from gnn_encoder.encoders.streaming import WINDOW, Prepared, encode_prepared, prefetch, prepare_rows, resume_windows
from gnn_encoder.encoders.tokens import Batch, Rows, TextTokens


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """Pairs of texts by row. *Shape:* `first_rows` and `second_rows` (n,)."""

    first: TextTokens
    first_rows: Rows
    second: TextTokens
    second_rows: Rows

    def __len__(self) -> int:
        return len(self.first_rows)


def encode_pairs(
    model: CrossEncoder,
    pairs: Pairs,
    windows: list[int],
    encode: Callable[[Batch], Tensor],
    *,
    max_length: int,
    batch_tokens: int,
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Yield (first pair, vectors) for each window of `windows` (numbers of windows of WINDOW pairs)."""
    inputs = Couples(
        first=pairs.first,
        second=pairs.second,
        size=len(pairs),
        rows_of=lambda rows: (pairs.first_rows[rows], pairs.second_rows[rows]),
        template=model.template,
        max_length=max_length,
    )

    def prepare(window: int) -> Prepared:
        rows = np.arange(window * WINDOW, min(len(pairs), (window + 1) * WINDOW))
        return prepare_rows(inputs, rows, batch_tokens)

    for window, prepared in prefetch(prepare, windows):
        size = min(len(pairs), (window + 1) * WINDOW) - window * WINDOW
        yield window, encode_prepared(prepared, size, encode)


def score_pairs(
    model: CrossEncoder, pairs: Pairs, folder: Path, *, max_length: int, batch_tokens: int
) -> NDArray[np.float32]:
    """M_ce's relevance of each pair, in 0..1, resumable in `folder`. *Shape:* (n,)."""

    def write(window: int, scores: NDArray[np.float32]) -> None:
        partial = folder / f".{window:06d}.npy"
        np.save(partial, scores[:, 0])
        partial.rename(_score_part(folder, window))

    def scores(batch: Batch) -> Tensor:
        return model.scores(batch).unsqueeze(1)

    folder.mkdir(parents=True, exist_ok=True)
    _each_window(model, pairs, scores, write, lambda w: _score_part(folder, w), "score pairs", max_length, batch_tokens)
    parts = [np.load(_score_part(folder, w)) for w in range(_count(pairs))]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.float32)


def embed_pairs(
    model: CrossEncoder,
    pairs: Pairs,
    folder: Path,
    keys: dict[str, Rows],
    schema: pa.Schema,
    *,
    max_length: int,
    batch_tokens: int,
) -> None:
    """[CLS] embeddings of pairs as Parquet parts in the pairs' order, resumable by part.

    Args:
        keys: the columns of `schema` that come before `feature`.
    """

    def write(window: int, vectors: NDArray[np.float32]) -> None:
        part = slice(window * WINDOW, window * WINDOW + len(vectors))
        flat = pa.array(vectors.astype(np.float16).reshape(-1))
        feature = pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
        columns = [pa.array(column[part].astype(np.int32)) for column in keys.values()]
        partial = folder / f".{window:06d}"
        write_table(partial, schema, [pa.table([*columns, feature], schema=schema)])
        partial.rename(feature_part(folder, window))

    folder.mkdir(parents=True, exist_ok=True)
    label = f"embed {folder.name}"
    _each_window(model, pairs, model.embed, write, lambda w: feature_part(folder, w), label, max_length, batch_tokens)


def feature_part(folder: Path, number: int) -> Path:
    """Name of a part of an edge-feature table."""
    return folder / f"part-{number:06d}.parquet"


def _score_part(folder: Path, number: int) -> Path:
    return folder / f"scores-{number:06d}.npy"


def _count(pairs: Pairs) -> int:
    return -(-len(pairs) // WINDOW)


def _each_window(
    model: CrossEncoder,
    pairs: Pairs,
    encode: Callable[[Batch], Tensor],
    write: Callable[[int, NDArray[np.float32]], None],
    place: Callable[[int], Path],
    label: str,
    max_length: int,
    batch_tokens: int,
) -> None:
    def work(windows: list[int]) -> Iterator[tuple[int, NDArray[np.float32]]]:
        return encode_pairs(model, pairs, windows, encode, max_length=max_length, batch_tokens=batch_tokens)

    resume_windows(len(pairs), WINDOW, place, work, write, label=label, unit="pairs")
