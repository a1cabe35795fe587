"""A system's passage vectors with their ids, as files that other tools read. Vectors and texts are streamed."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gnn_encoder.base.distributed import tqdm
from gnn_encoder.base.files import check_undamaged
from gnn_encoder.base.matrix import open_matrix, read_manifest, release, write_header
from gnn_encoder.base.tables import PASSAGES, open_table
from gnn_encoder.growing.versions import Version, current
from gnn_encoder.search.faiss_index import INDEX, PID_TABLE, PIDS, PassageIndex

Vectors = NDArray[np.float32]
ROWS = 4096  # vectors that are written together
IDS, MATRIX, TABLE = "ids.txt", "vectors.npy", "vectors.parquet"


def export_npy(system: str, folder: Path) -> None:
    """`vectors.npy` (float32) and `ids.txt`: line i is the passage of row i. Of several views each has a row."""
    version = current(system).checked()
    shape = read_manifest(version.embeddings).shape
    with (folder / MATRIX).open("wb") as file, (folder / IDS).open("w", encoding="utf-8") as ids:
        write_header(file, np.dtype(np.float32), shape)
        for passages, vectors in passage_parts(version):
            file.write(np.ascontiguousarray(vectors).data)
            ids.writelines(f"{pid}\n" for pid in passages["pid"].to_pylist())


def export_parquet(system: str, folder: Path) -> None:
    """`vectors.parquet`: columns pid, title, text, vector (a list of float32 of fixed size)."""
    version = current(system).checked()
    columns = read_manifest(version.embeddings).shape[1]
    schema = pa.schema([*PASSAGES, ("vector", pa.list_(pa.float32(), columns))])
    with pq.ParquetWriter(folder / TABLE, schema) as writer:
        for passages, vectors in passage_parts(version):
            column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), columns)
            writer.write_table(pa.table([*passages.columns, column], schema=schema))


def export_faiss(system: str, folder: Path) -> None:
    """`index.faiss`, the index that is searched, and `ids.txt`: FAISS's id i is the passage of line i."""
    index = PassageIndex.open(current(system).index)
    check_undamaged(index.folder)
    shutil.copyfile(index.folder / INDEX, folder / INDEX)
    with (folder / IDS).open("w", encoding="utf-8") as ids:
        for batch in open_table(index.folder / PIDS, PID_TABLE).iter_batches(columns=["pid"]):
            ids.writelines(f"{pid}\n" for pid in batch["pid"].to_pylist() for _ in range(index.views))


def passage_parts(version: Version) -> Iterator[tuple[pa.Table, Vectors]]:
    """Passages and their vectors, in the passages' order; a passage with several views stands before each of them."""
    for path in (version.embeddings, version.passages):
        check_undamaged(path)
    manifest, matrix, first = read_manifest(version.embeddings), open_matrix(version.embeddings), 0
    bar = tqdm(total=manifest.shape[0], desc="vectors", unit=" vectors")
    for batch in open_table(version.passages, PASSAGES).iter_batches(batch_size=max(1, ROWS // manifest.views)):
        last = first + len(batch) * manifest.views
        at = np.repeat(np.arange(len(batch)), manifest.views)
        yield pa.Table.from_batches([batch]).take(pa.array(at)), matrix[first:last].astype(np.float32)
        release(matrix)
        bar.update(last - first)
        first = last
    bar.close()
