"""A cross-encoder over many pairs: in windows sorted by length; results keep the pairs' order and survive a kill."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from torch import Tensor

from gnn_encoder.base.files import check_room
from gnn_encoder.base.matrix import Rows, gather, resume_windows
from gnn_encoder.base.tables import write_part
from gnn_encoder.encoding.inputs import Inputs
from gnn_encoder.encoding.streaming import WINDOW, Prepared, encode_prepared, prefetch, prepare_rows
from gnn_encoder.models.batch import Batch
from gnn_encoder.models.cross_encoder import CrossEncoder

PART = "part-{:06d}.parquet"


@dataclass(frozen=True)
class Known:
    """Vectors that are known for some pairs: pair i has row `rows[i]` of `vectors`, or none where that is -1.

    *Shape:* vectors (r, d), rows (n,).
    """

    vectors: NDArray[np.float16]
    rows: Rows

    def fill(self, part: slice, others: NDArray[np.float16]) -> NDArray[np.float16]:
        """The vectors of the pairs in `part`: known ones where there are any, elsewhere the next of `others`.

        *Shape:* others (pairs of `part` that are not known, d) -> (pairs of `part`, d).
        """
        rows = self.rows[part]
        found = gather(self.vectors, np.maximum(rows, 0))
        found[rows < 0] = others
        return found


def encode_pairs(
    model: CrossEncoder,
    pairs: Inputs,
    windows: Iterable[int],
    encode: Callable[[Batch], Tensor],
    *,
    batch_tokens: int,
    known: Known | None = None,
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Yield (window, vectors of its pairs that are not known) for each number in `windows`.

    Window w holds WINDOW pairs from pair w * WINDOW on. *Shape:* vectors (pairs that are not known, d).
    """

    def prepare(window: int) -> tuple[int, Prepared]:
        rows = np.arange(window * WINDOW, min(len(pairs), (window + 1) * WINDOW))
        if known is not None:
            rows = rows[known.rows[rows] < 0]
        return len(rows), prepare_rows(pairs, rows, batch_tokens)

    for window, (size, prepared) in prefetch(prepare, windows):
        vectors = encode_prepared(prepared, size, encode) if size else np.empty((0, model.dimension), np.float32)
        yield window, vectors


def score_pairs(model: CrossEncoder, pairs: Inputs, folder: Path, batch_tokens: int) -> NDArray[np.float32]:
    """M_ce's logit of each pair, resumable in `folder`, shared by all devices, and of no pairs too. *Shape:* (n,)."""
    work = partial(encode_pairs, model, pairs, encode=model.column_of_logits, batch_tokens=batch_tokens)
    how = {"label": "score pairs", "unit": "pairs"}
    files = resume_windows(folder, "scores-{:06d}.npy", len(pairs), WINDOW, work, _write_scores, **how)
    return np.concatenate([np.empty(0, dtype=np.float32), *map(np.load, files)])


def _write_scores(path: Path, window: int, scores: NDArray[np.float32]) -> None:
    np.save(path, scores[:, 0])


def embed_pairs(
    model: CrossEncoder,
    pairs: Inputs,
    folder: Path,
    keys: dict[str, Rows],
    schema: pa.Schema,
    *,
    batch_tokens: int,
    known: Known | None = None,
) -> None:
    """[CLS] embeddings of pairs as Parquet parts in the pairs' order, resumable by part.

    Args:
        keys: the columns of `schema` that come before `feature`. *Shape:* (n,) each.
        known: embeddings that are taken over instead of being computed; None: all are computed.
    """

    def write(path: Path, window: int, vectors: NDArray[np.float32]) -> None:
        part = slice(window * WINDOW, (window + 1) * WINDOW)
        features = vectors.astype(np.float16)
        if known is not None:
            features = known.fill(part, features)
        feature = pa.FixedSizeListArray.from_arrays(pa.array(features.reshape(-1)), features.shape[1])
        columns = [pa.array(column[part].astype(np.int32)) for column in keys.values()]
        write_part(path, schema, [pa.table([*columns, feature], schema=schema)])

    folder.mkdir(parents=True, exist_ok=True)
    cure = "lower build_graph.k, or set mgt.edge_features to product"
    check_room(folder, 2 * len(pairs) * model.dimension, cure)
    work = partial(encode_pairs, model, pairs, encode=model.embed, batch_tokens=batch_tokens, known=known)
    how = {"label": f"embed {folder.name}", "unit": "pairs"}
    resume_windows(folder, PART, len(pairs), WINDOW, work, write, **how)
