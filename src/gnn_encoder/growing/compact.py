"""`gnn-encoder compact`: many segments become one, without what was deleted; everything is streamed.

With `whole`, a new FAISS index of the built index's passages and the added ones takes the place of the built one in a
search, so that added passages are found by the same structure, and deleted ones take no room in it.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import faiss
import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from gnn_encoder.core.records import open_parquet
from gnn_encoder.core.storage.arrays import ArrayManifest, ArrayWriter, release, write_header
from gnn_encoder.core.storage.tables import write_table
from gnn_encoder.growing.commands import NOTHING_DELETED, Outcome, counted, live, open_overlay
from gnn_encoder.growing.overlay import Overlay, built_factory, changing, commit
from gnn_encoder.growing.segment import (
    CACHED,
    DELETED,
    EDGES,
    GROWN,
    H_Q,
    H_Q_PRIME,
    INDEX,
    LOGGED,
    M_DE,
    NOWHERE,
    PAIRS,
    REACH,
    ROWS,
    VECTORS,
    Entry,
    Segment,
    append,
    matrix_writer,
)
from gnn_encoder.growing.systems import check_system
from gnn_encoder.index.build import fill
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import load_params

ROWS_AT_A_TIME = 16_384
Merged = list[tuple[Segment, NDArray[np.int64]]]  # segments with those of their own rows that are live, ascending


def compact(system: str, *, whole: bool = False) -> Outcome:
    """Merge the segments of a system; with `whole` also index them together with the built passages.

    Raises:
        UserError: what was added belongs to another index, or an artifact is missing.
    """
    check_system(system)
    with changing(system):
        overlay = open_overlay(system)
        merged = [_alive(overlay, one) for one in overlay.segments if whole or not one.entry.indexed]
        if not merged or (len(merged) == 1 and not whole):
            return Outcome("nothing to merge", live(overlay))
        folder = overlay.path(overlay.manifest.following)
        folder.mkdir()
        entry = _merge(overlay, merged, folder)
        untouched = [one.entry for one in overlay.segments if one.entry.indexed and not whole]
        manifest = overlay.manifest.model_copy(
            update={
                "following": entry.number + 1,
                "segments": (*untouched, entry.model_copy(update={"indexed": whole})),
            }
        )
        if whole:
            _write_index(Overlay(manifest), folder)
        commit(manifest)
    told = ", and indexed together with the built passages" if whole else ""
    return Outcome(f"{counted(len(merged), 'segment')} merged{told}", live(Overlay(manifest)))


def _alive(overlay: Overlay, segment: Segment) -> tuple[Segment, NDArray[np.int64]]:
    rows = np.arange(segment.entry.passages)
    return segment, rows[overlay.is_live(segment.first_row + rows)]


def _merge(overlay: Overlay, merged: Merged, folder: Path) -> Entry:
    """Write everything that the segments hold, and that still counts, into one."""
    passages, queries = (sum(len(rows) for _, rows in merged), sum(one.entry.queries for one, _ in merged))
    if passages:
        write_table(folder / "passages.parquet", GROWN, _live_passages(merged))
        for name in (VECTORS, CACHED):
            _merge_rows([one for one in merged if len(one[1])], name, folder)
        if any(one.edges.is_file() for one, _ in merged):
            write_table(folder / "edges.parquet", EDGES, _live_edges(merged))
    asked = [(one, np.arange(one.entry.queries)) for one, _ in merged if one.entry.queries]
    if asked:
        write_table(folder / "queries.parquet", LOGGED, _tables([one.queries for one, _ in asked]))
        write_table(folder / "pairs.parquet", PAIRS, _pairs([one for one, _ in asked]))
        for name in (M_DE, H_Q, H_Q_PRIME, REACH):
            _merge_rows(asked, name, folder)
    deleted = _still_hidden(overlay, merged)
    if len(deleted):
        write_table(folder / "deleted.parquet", DELETED, [deleted.to_arrow()])
    return Entry(number=overlay.manifest.following, passages=passages, queries=queries, deleted=len(deleted))


def _merge_rows(merged: Merged, name: str, folder: Path) -> None:
    """Write some rows of the segments' arrays of one name as one array, if they have it."""
    if not merged or not (merged[0][0].folder / name).is_file():
        return
    first = merged[0][0].matrix(name)
    shape = sum(len(rows) for _, rows in merged), first.shape[1]
    with matrix_writer(folder / name, shape, first.dtype.str) as file:
        for segment, rows in merged:
            matrix = segment.matrix(name)
            for start in range(0, len(rows), ROWS_AT_A_TIME):
                append(file, matrix[rows[start : start + ROWS_AT_A_TIME]], first.dtype.str)
                release(matrix)


def _live_passages(merged: Merged) -> Iterator[pa.Table]:
    for segment, rows in merged:
        if len(rows):
            for first, batch in _batches(segment.passages):
                low, high = np.searchsorted(rows, [first, first + len(batch)])
                yield pa.Table.from_batches([batch]).take(pa.array(rows[low:high] - first))


def _live_edges(merged: Merged) -> Iterator[pa.Table]:
    """Edges of live passages, which are numbered anew."""
    done = 0
    for segment, rows in merged:
        if len(rows):
            at = pl.DataFrame({"passage": rows.astype(np.int32)}).with_row_index("new")
            for _, batch in _batches(segment.edges):
                edges = pl.DataFrame(batch).join(at, on="passage", maintain_order="left")
                edges = edges.with_columns(passage=(pl.col("new") + done).cast(pl.Int32))
                yield edges.select(EDGES.names).to_arrow()
        done += len(rows)


def _tables(paths: list[Path]) -> Iterator[pa.RecordBatch]:
    for path in paths:
        yield from (batch for _, batch in _batches(path))


def _pairs(segments: list[Segment]) -> Iterator[pa.Table]:
    """Labels, with the queries numbered on from segment to segment."""
    done = 0
    for segment in segments:
        for _, batch in _batches(segment.pairs):
            yield pl.DataFrame(batch).with_columns(pl.col("query") + done).to_arrow()
        done += segment.entry.queries


def _batches(path: Path) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The batches of a table, each with its first row."""
    first = 0
    for batch in open_parquet(path).iter_batches(batch_size=ROWS_AT_A_TIME):
        yield first, batch
        first += len(batch)


def _still_hidden(overlay: Overlay, merged: Merged) -> pl.DataFrame:
    """What the merged segments hide elsewhere, and the ids that a rebuilt index must not have, as `DELETED`."""
    every = pl.concat([NOTHING_DELETED, *(segment.deleted for segment, _ in merged)])
    inside = pl.col("segment").is_in([segment.entry.number for segment, _ in merged])
    elsewhere = every.filter(~inside & (pl.col("segment") != NOWHERE))
    gone = every.filter(pl.col("for_good") & (inside | (pl.col("segment") == NOWHERE))).unique("pid")
    gone = gone.filter(~pl.col("pid").is_in(elsewhere.filter("for_good")["pid"].implode()))
    back = overlay.find(gone["pid"])["pid"]
    gone = gone.filter(~pl.col("pid").is_in(back.implode()))
    nowhere = gone.with_columns(segment=pl.lit(NOWHERE, pl.Int32), row=pl.lit(NOWHERE, pl.Int64))
    return pl.concat([elsewhere, nowhere]).select(DELETED.names)


# --- one index of everything ------------------------------------------------------------------------------------------


def _write_index(overlay: Overlay, folder: Path) -> None:
    """Index all live passages, as the built index was made; a matrix of their vectors is there for a while."""
    rows = np.setdiff1d(np.arange(overlay.rows), overlay.dead)
    with (folder / ROWS).open("wb") as file:
        write_header(file, rows.dtype, rows.shape)
        file.write(rows.data)
    matrix, shape = folder / "matrix", (len(rows), overlay.manifest.dimension)
    with ArrayWriter(matrix, shape, "float32") as writer:
        done = 0
        for first, block in overlay.blocks(project.embeddings(overlay.manifest.system), VECTORS):
            kept = block[overlay.is_live(first + np.arange(len(block)))]
            writer.write(done, kept)
            done += len(kept)
        manifest = ArrayManifest(
            shape=shape, dtype="float32", model_fingerprint="", input_fingerprint="", fingerprint=""
        )  # nobody asks what a matrix comes from that is gone in a moment
        writer.finish(manifest)
    index = fill(matrix, built_factory(overlay.manifest.system), load_params().seed)
    faiss.write_index(index, str(folder / INDEX))
    shutil.rmtree(matrix)
