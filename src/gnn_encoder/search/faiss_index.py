"""A FAISS index of passage embeddings, with the passages' ids beside it: built, mapped rather than read, searched."""

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Self

import faiss
import numpy as np
import pyarrow as pa

from gnn_encoder.base.distributed import tqdm
from gnn_encoder.base.errors import UserError, not_built
from gnn_encoder.base.files import MANIFEST, check_room, fingerprint, read_json, write_json
from gnn_encoder.base.judgements import Identical
from gnn_encoder.base.matrix import Matrix, Rows, array_blocks, check_finite, gather_rows, open_matrix, read_manifest
from gnn_encoder.base.runs import write_ranking
from gnn_encoder.base.tables import PASSAGES, PICKED, count_rows, open_table, write_table
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.search.exact import MERGE_ENTRIES, Ranking, checked, least, of_scores, once, top, unpack

log = logging.getLogger(__name__)
INDEX = "index.faiss"
PIDS = "pids.parquet"
PID_TABLE = pa.schema([("pid", pa.string())])
TRAINING_BYTES = 2**30  # size of the float32 sample that quantisers learn from
CURE = "take Flat, HNSW32, IVF256,Flat or another string of FAISS's index factory, or fewer lists or centroids"
PROBED = 16  # of an inverted file's lists, one in so many is searched, and at least 8 are
KEEPING = ("OPQMatrix", "RandomRotationMatrix", "HadamardRotation", "RemapDimensionsTransform")  # inner products
KEPT = 2**27  # bytes of a table that stay in memory between queries, and one row group more


@dataclass(frozen=True, kw_only=True)
class IndexManifest:
    """What the manifest says of an index, beside its fingerprint."""

    factory: str
    passages: int
    views: int
    dimension: int
    asked_by: str  # `weights_of` the encoder of the queries


def weights_of(encoder: Path) -> str:
    """Fingerprint of the weights of E_Q in a dual-encoder's folder."""
    return fingerprint(*sorted(encoder.glob("*.safetensors")))


def build(
    embeddings_folder: Path, folder: Path, *, factory: str, pids: Path, system: str, encoder: Path, seed: int
) -> None:
    """Write `index.faiss`, `pids.parquet` and `manifest.json` into `folder`. *Shape:* matrix (passages * views, d)."""
    matrix = read_manifest(embeddings_folder)
    passages, views = matrix.shape[0] // matrix.views, matrix.views
    if (rows := count_rows(pids)) != passages:
        raise UserError(f"{embeddings_folder}: {passages} rows, but {pids} has {rows}; encode the passages again")
    folder.mkdir(parents=True, exist_ok=True)
    if factory == "Flat":
        _write_flat(embeddings_folder, folder / INDEX)
    else:
        faiss.write_index(fill(embeddings_folder, factory, seed), str(folder / INDEX))
    write_table(folder / PIDS, PID_TABLE, open_table(pids, PASSAGES).iter_batches(columns=["pid"]), PICKED)
    dimension, asked_by = matrix.shape[1], weights_of(encoder)
    settings = {"factory": factory, "system": system, "asked_by": asked_by, "seed": seed, "views": views}
    made = fingerprint(embeddings_folder, pids, **settings)
    about = IndexManifest(factory=factory, passages=passages, views=views, dimension=dimension, asked_by=asked_by)
    write_json(folder / MANIFEST, {"fingerprint": made} | vars(about))


def fill(embeddings_folder: Path, factory: str, seed: int) -> Any:
    """A faiss.Index of every vector in memory; HNSW repeats its bytes only with OMP_NUM_THREADS=1."""
    matrix = open_matrix(embeddings_folder)
    index = new_index(factory, matrix.shape[1])
    if not index.is_trained:
        with _explained(factory, f"{len(matrix)} vectors of dimension {index.d}"):
            index.train(_sample(embeddings_folder, seed))
    with tqdm(total=len(matrix), desc=f"index {factory}", unit="vector", unit_scale=True) as bar:
        for _, block in array_blocks(matrix):
            index.add(block)
            bar.update(len(block))
    inverted = faiss.try_extract_index_ivf(index)
    if inverted is not None:  # FAISS's default, to search one list, finds too few passages
        inverted.nprobe = min(inverted.nlist, max(8, inverted.nlist // PROBED))
    return index


def new_index(factory: str, dimension: int) -> Any:
    """An empty faiss.Index; one whose scores mean anything but inner products is a UserError."""
    told = f"index.factory is {factory!r}"
    if re.search(r"(HNSW|NSG)[01](?!\d)", factory):  # FAISS ends the process, or never ends
        raise UserError(f"{told}: its graph has less than 2 links a vector; take 32")
    if re.search(r"(?<!\d)0", factory):
        raise UserError(f"{told}: has a number 0, with which FAISS ends the process; {CURE}")
    with _explained(factory, f"dimension {dimension}"):
        index = faiss.index_factory(dimension, factory, faiss.METRIC_INNER_PRODUCT)
    if index.metric_type != faiss.METRIC_INNER_PRODUCT or isinstance(index, faiss.IndexIDMap):
        raise UserError(f"{told}: not an index of rows for inner product; {CURE}")
    if isinstance(index, faiss.IndexPreTransform):
        chain: Any = index.chain
        for i in range(chain.size()):
            step = faiss.downcast_VectorTransform(chain.at(i))
            name = type(step).__name__
            # PCA and ITQ take off the passages' mean, L2norm the vectors' lengths, and a short RR some dimensions.
            if name not in KEEPING or (step.d_out < step.d_in and name != "OPQMatrix"):
                cure = f"take OPQ or RR{dimension}"
                raise UserError(f"{told}: its {name} changes inner products, which rank the passages; {cure}")
    return index


@contextmanager
def _explained(factory: str, of: str) -> Iterator[None]:
    """A block in which FAISS's error becomes a UserError of one line."""
    try:
        yield
    except RuntimeError as error:
        why = re.sub(r"^Error in .*? at \S+:\d+: (Error: )?", "", " ".join(str(error).split()))  # not where in FAISS
        raise UserError(f"index.factory is {factory!r}: FAISS makes no such index of {of} ({why}); {CURE}") from error


def _write_flat(embeddings_folder: Path, path: Path) -> None:
    """Write the file that FAISS writes of a filled `IndexFlatIP`, without holding the index in memory."""
    matrix = open_matrix(embeddings_folder)
    rows, columns = matrix.shape
    check_room(path.parent, 4 * rows * columns, "take a smaller index, such as index.factory: IVF256,SQ8")
    # The header of an empty index, with the number of vectors from the 8th byte on, and last that of floats.
    header = bytearray(faiss.serialize_index(faiss.IndexFlatIP(columns)).tobytes())
    header[8:16], header[-8:] = rows.to_bytes(8, "little"), (rows * columns).to_bytes(8, "little")
    with path.open("wb") as file, tqdm(total=rows, desc="index Flat", unit="vector") as bar:
        file.write(header)
        for _, block in array_blocks(matrix):
            file.write(block.data)
            bar.update(len(block))


def _sample(embeddings_folder: Path, seed: int) -> Matrix:
    """Draw rows without replacement and read them in the file's order. *Shape:* (sample, d)."""
    matrix = open_matrix(embeddings_folder)
    size = min(len(matrix), max(1, TRAINING_BYTES // (matrix.shape[1] * 4)))
    rows = np.sort(np.random.default_rng(seed).choice(len(matrix), size=size, replace=False))
    sample = np.ascontiguousarray(gather_rows(matrix, rows), dtype=np.float32)
    check_finite(sample, embeddings_folder, rows)
    return sample


@dataclass(frozen=True, kw_only=True)
class PassageIndex(IndexManifest):
    """An index on disk, open for searching. *Shape:* (passages * views, dimension)."""

    folder: Path
    index: Any  # faiss.Index

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Map the index of `folder`, so that opening costs no reading, and check it against its manifest."""
        for name in (MANIFEST, INDEX, PIDS):
            if not (folder / name).is_file():
                raise not_built(folder / name)
        about = read_json(folder / MANIFEST, IndexManifest)
        try:
            index = faiss.read_index(str(folder / INDEX), faiss.IO_FLAG_MMAP_IFC)
        except RuntimeError as error:
            told = f"not a readable FAISS index ({' '.join(str(error).split())}); build the index again"
            raise UserError(f"{folder / INDEX}: {told}") from error
        if (index.ntotal, index.d) != (about.passages * about.views, about.dimension):
            told = f"{about.passages} passages times {about.views} of {about.dimension}; build the index again"
            holds = f"{index.ntotal} vectors of dimension {index.d}"
            raise UserError(f"{folder / INDEX}: {holds}, but {folder / MANIFEST} says {told}")
        return cls(folder=folder, index=index, **vars(about))

    def check_encoder(self, encoder: Path) -> None:
        """Refuse a dual-encoder whose queries would not fit the passages, since it was trained anew."""
        if self.asked_by != weights_of(encoder):
            raise UserError(f"{self.folder}: {encoder} has other weights since; build the index again (`dvc repro`)")

    def search(self, queries: Matrix, k: int) -> Ranking:
        """Rows of the best passages (-1 where the index found fewer), and scores. *Shape:* (n, d) -> (n, k) each."""
        return search_views(self.index, self.views, checked(queries, self.dimension, k, self.passages, "k"), k)


def search_views(index: Any, views: int, queries: Matrix, k: int) -> Ranking:
    """Find k passages a query in an index with `views` vectors a passage; -1 where an approximate index found fewer.

    s(q, d_j) = max_i q^T d_j^i        (Eq. 11)

    With several views, 2k vectors are fetched first, and twice as many again for the queries whose vectors belong to
    fewer than k passages, up to k times `views`. Of vectors that tie for the last place FAISS keeps any.

    *Shape:* queries (n, d) -> (n, k) each, best first, the lower row first among equals.
    """
    if views == 1:
        scores, rows = index.search(queries, k)
        return top(rows, scores, k)
    passages, scores = np.empty((len(queries), k), np.int64), np.empty((len(queries), k), np.float32)
    size = max(1, MERGE_ENTRIES // (k * views))
    for first in range(0, len(queries), size):
        width, waiting = 2 * k, np.arange(first, min(first + size, len(queries)))
        while len(waiting):
            of_vectors, rows = index.search(queries[waiting], width)
            keys = once(of_scores(rows // views, of_vectors))  # -1 // views is -1
            passages[waiting], scores[waiting] = unpack(np.sort(least(keys, k)))
            # A last row of -1: the index has nothing more to give.
            is_complete = (passages[waiting, -1] >= 0) | (rows[:, -1] < 0)
            waiting = waiting[~is_complete] if width < views * k else waiting[:0]
            width = min(2 * width, views * k)
    return passages, scores


def check_ids(folder: Path, passages: Path) -> None:
    """Compare the ids of an index with those of the table of passages."""
    sides = open_table(folder / PIDS, PID_TABLE), open_table(passages, PASSAGES)
    ours, theirs = (table.read(columns=["pid"]).column("pid") for table in sides)
    if not ours.equals(theirs):
        raise UserError(f"{folder}: made of other passages than now; build it again (`dvc repro`)")


class TableRows:
    """Reads single rows of a Parquet table; only the row groups that they are in are read."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._file = open_table(path, schema)
        metadata = self._file.metadata
        sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        self._starts = np.cumsum([0, *sizes])
        largest = max((metadata.row_group(group).total_byte_size for group in range(len(sizes))), default=0)
        self._group = lru_cache(maxsize=1 + KEPT // max(1, largest))(self._file.read_row_group)

    def __len__(self) -> int:
        return int(self._file.metadata.num_rows)

    def take(self, rows: Rows) -> list[dict[str, Any]]:
        """Rows in the order asked for, by column name. *Shape:* rows (n,)."""
        groups = np.searchsorted(self._starts, rows, side="right") - 1
        places = zip(groups.tolist(), (rows - self._starts[groups]).tolist(), strict=True)
        return [row for group, at in places for row in self._group(group).slice(at, 1).to_pylist()]


def index_system(
    queries: Mapping[str, Matrix], system: str, encoder: Path, matrix: Path, index: Path, runs: Path, params: Params
) -> None:
    """Write the index of a system's passage embeddings, the runs of its `queries`, by split, and their embeddings.

    `encoder` made these. A run holds `retrieve.depth` passages of each query or all, but never the query itself.
    """
    factory, seed = params.index.factory, params.seed
    build(matrix, index, factory=factory, pids=project.PASSAGES, system=system, encoder=encoder, seed=seed)
    opened, depth = PassageIndex.open(index), params.retrieve.depth
    for split, embedded in queries.items():
        table, identical = project.queries(split), Identical.read(project.IDENTICAL, split)
        ranking = identical.search(partial(opened.search, embedded), depth, opened.passages)
        if few := (ranking[0] < 0).any(axis=1).mean() if depth + identical.most < opened.passages else 0:
            told = f"index.factory {opened.factory} found less than retrieve.depth, {depth}, for {few:.0%} of {split}'s"
            log.warning("warning: %s queries: its measures are too low; take fewer lists, or HNSW32 or Flat", told)
        write_ranking(runs / project.run_file(system, split).name, ranking, table, project.PASSAGES, system)
        np.save(runs / project.asked(system, split).name, embedded)
