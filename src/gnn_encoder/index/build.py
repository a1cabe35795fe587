"""A FAISS index of passage embeddings, with the passages' ids beside it."""

import re
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gnn_encoder.base.distributed import tqdm
from gnn_encoder.base.errors import UserError
from gnn_encoder.base.files import MANIFEST, check_room, fingerprint, write_json
from gnn_encoder.base.matrix import check_finite, gather, open_matrix, read_manifest
from gnn_encoder.base.tables import PASSAGES, PICKED, count_rows, open_table, write_table
from gnn_encoder.index.views import iterate_views

INDEX = "index.faiss"
PIDS = "pids.parquet"
PID_TABLE = pa.schema([("pid", pa.string())])
TRAINING_BYTES = 2**30  # size of the float32 sample that quantisers learn from
PROBED = 16  # of an inverted file's lists, one in so many is searched, and at least 8 are


def build(
    embeddings_folder: Path,
    folder: Path,
    *,
    factory: str,
    pids: Path,
    system: str,
    seed: int,
) -> None:
    """Write `index.faiss`, `pids.parquet` and `manifest.json` into `folder`.

    Args:
        embeddings_folder: Matrix of passage embeddings. *Shape:* (passages * views, d).
    """
    matrix = read_manifest(embeddings_folder)
    n_passages, views = matrix.shape[0] // matrix.views, matrix.views
    if count_rows(pids) != n_passages:
        raise UserError(
            f"{embeddings_folder}: {n_passages} rows, but {pids} has {count_rows(pids)}; encode the passages again"
        )
    folder.mkdir(parents=True, exist_ok=True)
    if factory == "Flat":
        _write_flat(embeddings_folder, folder / INDEX)
    else:
        faiss.write_index(fill(embeddings_folder, factory, seed), str(folder / INDEX))
    write_table(folder / PIDS, PID_TABLE, open_table(pids, PASSAGES).iter_batches(columns=["pid"]), PICKED)
    manifest: dict[str, object] = {
        "fingerprint": fingerprint(embeddings_folder, pids, factory=factory, system=system, seed=seed, views=views),
        "factory": factory,
        "passages": n_passages,
        "views": views,
        "dimension": matrix.shape[1],
        "system": system,
    }
    write_json(folder / MANIFEST, manifest)


def fill(embeddings_folder: Path, factory: str, seed: int) -> Any:
    """Make an index by its factory string, train it if it needs training, and add every passage.

    An HNSW index depends on the timing of threads: to get the same bytes twice, build it with OMP_NUM_THREADS=1.

    Args:
        embeddings_folder: *Shape:* (passages * views, d).

    Returns:
        A faiss.Index in memory.
    """
    matrix = read_manifest(embeddings_folder)
    n_passages = matrix.shape[0] // matrix.views
    cure = "take Flat, HNSW32, IVF256,Flat or another string of FAISS's index factory, or fewer lists or centroids"
    try:
        index = faiss.index_factory(matrix.shape[1], factory, faiss.METRIC_INNER_PRODUCT)
        if not index.is_trained:
            index.train(_sample(embeddings_folder, seed))
    except RuntimeError as error:
        why = re.sub(r"^Error in .*? at \S+:\d+: (Error: )?", "", " ".join(str(error).split()))  # not where in FAISS
        raise UserError(
            f"index.factory is {factory!r}: FAISS makes no such index of {n_passages} passages of dimension "
            f"{matrix.shape[1]} ({why}); {cure}"
        ) from error
    if index.metric_type != faiss.METRIC_INNER_PRODUCT or isinstance(index, faiss.IndexIDMap):
        raise UserError(f"index.factory is {factory!r}: not an index of rows for inner product; {cure}")
    with tqdm(total=n_passages, desc=f"index {factory}", unit="passage", unit_scale=True) as bar:
        for _, block in iterate_views(embeddings_folder):
            index.add(block.reshape(-1, index.d))
            bar.update(len(block))
    inverted = faiss.try_extract_index_ivf(index)
    if inverted is not None:  # FAISS's default, to search one list, finds too few passages
        inverted.nprobe = min(inverted.nlist, max(8, inverted.nlist // PROBED))
    return index


def _write_flat(embeddings_folder: Path, path: Path) -> None:
    """Write the file that FAISS writes of a filled `IndexFlatIP`, without holding the index in memory.

    After a header of an empty index, whose bytes from the 8th on are the number of vectors and whose last 8 are the
    number of floats, that file holds the vectors.
    """
    rows, columns = read_manifest(embeddings_folder).shape
    check_room(path.parent, 4 * rows * columns, "take a smaller index, such as index.factory: IVF256,SQ8")
    header = bytearray(faiss.serialize_index(faiss.IndexFlatIP(columns)).tobytes())
    header[8:16], header[-8:] = rows.to_bytes(8, "little"), (rows * columns).to_bytes(8, "little")
    with path.open("wb") as file, tqdm(total=rows, desc="index Flat", unit="vector") as bar:
        file.write(header)
        for _, block in iterate_views(embeddings_folder):
            file.write(np.ascontiguousarray(block).data)
            bar.update(block.shape[0] * block.shape[1])


def _sample(embeddings_folder: Path, seed: int) -> NDArray[np.float32]:
    """Draw rows without replacement and read them in the file's order. *Shape:* (sample, d)."""
    matrix = open_matrix(embeddings_folder)
    size = min(len(matrix), max(1, TRAINING_BYTES // (matrix.shape[1] * 4)))
    rows = np.sort(np.random.default_rng(seed).choice(len(matrix), size=size, replace=False))
    sample = np.ascontiguousarray(gather(matrix, rows), dtype=np.float32)
    check_finite(sample, embeddings_folder, rows)
    return sample
