"""A system's passage vectors with their ids, as files that other tools read. Vectors and texts are streamed."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gnn_encoder.core import project
from gnn_encoder.core.errors import UserError
from gnn_encoder.core.records import PASSAGES, open_table
from gnn_encoder.core.storage.arrays import open_matrix, read_manifest, release, write_header
from gnn_encoder.core.storage.tables import count_rows
from gnn_encoder.index.build import INDEX

Vectors = NDArray[np.float32]
ROWS = 4096  # vectors that are written together
IDS, MATRIX, TABLE, BULK, POINTS = "ids.txt", "vectors.npy", "vectors.parquet", "bulk.ndjson", "points.jsonl"


def export_npy(system: str, folder: Path) -> None:
    """`vectors.npy` (float32) and `ids.txt`: line i is the passage of row i. Of several views each has a row."""
    shape = read_manifest(project.embeddings(system)).shape
    with (folder / MATRIX).open("wb") as file, (folder / IDS).open("w", encoding="utf-8") as ids:
        write_header(file, np.dtype(np.float32), shape)
        for passages, vectors in _parts(system):
            file.write(np.ascontiguousarray(vectors).data)
            ids.writelines(f"{pid}\n" for pid in passages["pid"].to_pylist())


def export_parquet(system: str, folder: Path) -> None:
    """`vectors.parquet`: columns pid, title, text, vector (a list of float32 of fixed size)."""
    columns = read_manifest(project.embeddings(system)).shape[1]
    schema = pa.schema([*PASSAGES, ("vector", pa.list_(pa.float32(), columns))])
    with pq.ParquetWriter(folder / TABLE, schema) as writer:
        for passages, vectors in _parts(system):
            column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), columns)
            writer.write_table(pa.table([*passages.columns, column], schema=schema))


def export_faiss(system: str, folder: Path) -> None:
    """`index.faiss`, the index that `dvc repro` built, and `ids.txt`: FAISS's id i is the passage of line i."""
    built = project.index(system) / INDEX
    if not built.is_file():
        raise UserError(f"{built}: no such file; make it first (`dvc repro build_index@{system}`)")
    shutil.copyfile(built, folder / INDEX)
    with (folder / IDS).open("w", encoding="utf-8") as ids:
        for passages, _ in _parts(system):
            ids.writelines(f"{pid}\n" for pid in passages["pid"].to_pylist())


def export_elasticsearch(system: str, folder: Path) -> None:
    """`bulk.ndjson` for the `_bulk` endpoint of Elasticsearch or OpenSearch: fields title, text and vector."""
    if read_manifest(project.embeddings(system)).views > 1:
        raise UserError(f"{system} has several vectors a passage, which one document cannot hold; take npy or parquet")
    with (folder / BULK).open("w", encoding="utf-8") as file:
        for passages, vectors in _parts(system):
            for row, vector in zip(passages.to_pylist(), vectors.tolist(), strict=True):
                document = {"title": row["title"], "text": row["text"], "vector": vector}
                file.write(f"{json.dumps({'index': {'_id': row['pid']}})}\n{json.dumps(document)}\n")


def export_qdrant(system: str, folder: Path) -> None:
    """`points.jsonl`: a Qdrant point a line, with id (the row), vector and payload (pid, title, text)."""
    with (folder / POINTS).open("w", encoding="utf-8") as file:
        first = 0
        for passages, vectors in _parts(system):
            rows = zip(passages.to_pylist(), vectors.tolist(), strict=True)
            for number, (payload, vector) in enumerate(rows, first):
                file.write(json.dumps({"id": number, "vector": vector, "payload": payload}) + "\n")
            first += len(vectors)


FORMATS: dict[str, Callable[[str, Path], None]] = {
    "npy": export_npy,
    "parquet": export_parquet,
    "faiss": export_faiss,
    "elasticsearch": export_elasticsearch,
    "qdrant": export_qdrant,
}


def _parts(system: str) -> Iterator[tuple[pa.Table, Vectors]]:
    """Passages and their vectors, in the passages' order; a passage with several views stands before each of them.

    Raises:
        UserError: the matrix is missing, or of other passages.
    """
    folder = project.embeddings(system)
    manifest, passages = read_manifest(folder), count_rows(project.PASSAGES)
    if manifest.shape[0] != passages * manifest.views:
        raise UserError(
            f"{folder}: holds {manifest.shape[0]} vectors, {project.PASSAGES} has {passages} passages; "
            "make it again (`dvc repro`)"
        )
    matrix, first = open_matrix(folder), 0
    for batch in open_table(project.PASSAGES, PASSAGES).iter_batches(batch_size=max(1, ROWS // manifest.views)):
        last = first + len(batch) * manifest.views
        at = np.repeat(np.arange(len(batch)), manifest.views)
        yield pa.Table.from_batches([batch]).take(pa.array(at)), matrix[first:last].astype(np.float32)
        release(matrix)
        first = last
