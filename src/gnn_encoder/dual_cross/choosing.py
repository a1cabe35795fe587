"""Which generated queries are kept: those nearest to their passage, as the first retriever embeds both."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gnn_encoder.core import distributed
from gnn_encoder.core.errors import UserError
from gnn_encoder.core.records import QUERIES
from gnn_encoder.core.rows import Rows
from gnn_encoder.core.storage.arrays import gather
from gnn_encoder.core.storage.tables import write_part, write_table
from gnn_encoder.encoding.corpus import embed_queries
from gnn_encoder.encoding.streaming import resume_windows
from gnn_encoder.encoding.tokens import TextTokens
from gnn_encoder.models.dual_encoder import DualEncoder

WINDOW = 2_048  # passages whose queries are embedded together; a kill loses one window at most


def nearest(cosines: NDArray[np.float32], repeated: NDArray[np.bool_], keep: int) -> Rows:
    """The places of the `keep` queries of each passage with the highest cosines, best first, earlier ones among equals.

    A query that repeats an earlier one of its passage would be the same view again. It comes after all others.

    *Shape:* cosines, repeated (passages, queries) -> (passages, keep).
    """
    return np.lexsort((-cosines, repeated), axis=-1)[:, :keep]


def choose_queries(
    encoder: DualEncoder,
    drafts: Path,
    tokens: TextTokens,
    embeddings: NDArray[np.floating],
    target: Path,
    work: Path,
    *,
    generated: int,
    keep: int,
    batch_tokens: int,
) -> None:
    """Write the table of kept queries: row r is view r % keep of passage r // keep, the nearest query being view 0.

    Args:
        encoder: embeds the queries.
        drafts: the table of generated queries, `generated` for each passage, in the passages' order.
        tokens: of that table.
        embeddings: of the passages, by the same encoder. *Shape:* (passages, d).
        work: scratch folder; windows that an interrupted run finished there are kept.

    Raises:
        UserError: there are not exactly `generated` queries for each passage.
    """
    passages = len(embeddings)
    if len(tokens) != passages * generated:
        raise UserError(
            f"{drafts}: {len(tokens)} queries, expected {passages * generated}: dual_cross.generated = {generated} for "
            f"each of {passages} passages; generate them again (`dvc repro`)"
        )

    def choose(windows: list[int]) -> Iterator[tuple[int, pa.Table]]:
        for window in windows:
            part = np.arange(window * WINDOW, min(passages, (window + 1) * WINDOW))
            rows = np.arange(part[0] * generated, (part[-1] + 1) * generated)
            texts = pl.scan_parquet(drafts).slice(int(rows[0]), len(rows)).collect()
            asked = embed_queries(encoder, tokens, batch_tokens, rows).reshape(len(part), generated, -1)
            kept = nearest(cosines_to(gather(embeddings, part), asked), _repeated(texts["text"], generated), keep)
            yield window, texts[(kept + generated * np.arange(len(part))[:, None]).reshape(-1)].to_arrow()

    def write(number: int, kept: pa.Table) -> None:
        partial = work / f".{number:06d}"
        write_part(partial, QUERIES, [kept])
        partial.rename(_part(work, number))

    work.mkdir(parents=True, exist_ok=True)
    resume_windows(passages, WINDOW, lambda n: _part(work, n), choose, write, label="choose queries", unit="passages")
    write_table(target, QUERIES, (pq.read_table(_part(work, n)) for n in range(-(-passages // WINDOW))))
    distributed.barrier()


def cosines_to(passages: NDArray[np.floating], queries: NDArray[np.float32]) -> NDArray[np.float32]:
    """Cosine of passages' embeddings with those of their queries. *Shape:* (n, d), (n, queries, d) -> (n, queries)."""
    wide = passages.astype(np.float32)
    lengths = np.linalg.norm(wide, axis=-1)[:, None] * np.linalg.norm(queries, axis=-1)
    found: NDArray[np.float32] = np.einsum("nd,nqd->nq", wide, queries) / np.maximum(lengths, np.finfo(np.float32).tiny)
    return found


def _repeated(texts: pl.Series, generated: int) -> NDArray[np.bool_]:
    """Which texts repeat an earlier one of the same passage. *Shape:* (n * generated,) -> (n, generated)."""
    passage = np.arange(len(texts)) // generated
    first = pl.DataFrame({"passage": passage, "text": texts}).select(pl.struct("passage", "text").is_first_distinct())
    return ~first.to_series().to_numpy().reshape(-1, generated)


def _part(work: Path, number: int) -> Path:
    return work / f"part-{number:06d}.parquet"
