"""`gnn-encoder add` and `delete`: each writes a version of the index, whole, which then takes the place of the last."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray
from tqdm import tqdm

from gnn_encoder.core.errors import UserError
from gnn_encoder.core.records import PASSAGES, open_table
from gnn_encoder.core.rows import Rows
from gnn_encoder.core.storage.arrays import ArrayWriter, read_manifest
from gnn_encoder.core.storage.fingerprint import fingerprint
from gnn_encoder.core.storage.tables import ROW_GROUP, count_rows, write_table
from gnn_encoder.growing.reading import read_pids, rows_of, write_passages
from gnn_encoder.growing.systems import Encode, check_system, open_encoder
from gnn_encoder.growing.versions import Version, current, fingerprint_of, next_version
from gnn_encoder.index.build import build, index_fingerprint
from gnn_encoder.index.search import PassageIndex
from gnn_encoder.index.views import iterate_views
from gnn_encoder.pipeline.params import load_params

AT_A_TIME = 1_024  # passages that are encoded together: what is in memory grows with the queries that retrieve them


@dataclass(frozen=True)
class Outcome:
    """What a command did, in words, and how many passages can be found now."""

    told: str
    passages: int


@dataclass(frozen=True)
class Added:
    """New passages: their table, and what gives them vectors."""

    table: Path
    encode: Encode


def add(system: str, path: Path) -> Outcome:
    """Add passages; one with the id of another that is there replaces it.

    Args:
        system: a dense system whose passages are made of their texts, and of a graph if it has one.
        path: JSON lines with `_id`, `text` and, if there is one, `title`, plain or .gz.

    Raises:
        UserError: a row is wrong, the system takes no passages, or an artifact is missing.
    """
    check_system(system, takes_passages=True)
    with next_version(system) as folder:
        before, table = _opened(system), folder / "added.parquet"
        write_passages(path, table)
        pids = pl.read_parquet(table, columns=["pid"])["pid"]
        replaced = rows_of(before.passages, pids)["row"].to_numpy()
        _write(system, folder, before, replaced, Added(table, open_encoder(system)))
        table.unlink()
    told = f"passages added: {len(pids):,}, of them in place of older versions: {len(replaced):,}"
    return Outcome(told, count_rows(current(system).passages))


def delete(system: str, pids: Iterable[str], path: Path | None = None) -> Outcome:
    """Delete passages by their ids; those in `path` stand one a line.

    Raises:
        UserError: an id is unknown, or all passages would go; nothing is deleted then.
    """
    check_system(system, takes_passages=False)
    with next_version(system) as folder:
        before, wanted = _opened(system), read_pids(pids, path)
        found = rows_of(before.passages, wanted["pid"])
        unknown = wanted.join(found, on="pid", how="anti", maintain_order="left")
        if len(unknown):
            more = f" (and {len(unknown) - 1:,} more)" if len(unknown) > 1 else ""
            raise UserError(
                f"{unknown['place'][0]}: no passage {unknown['pid'][0]!r} is in the index of {system}{more}; "
                "nothing is deleted: leave out what is not there"
            )
        if len(found) == count_rows(before.passages):
            raise UserError(f"these are all passages of {system}; nothing is deleted: an index needs one passage")
        _write(system, folder, before, found["row"].to_numpy(), None)
    return Outcome(f"passages deleted: {len(found):,}", count_rows(current(system).passages))


def _opened(system: str) -> Version:
    """The version that is current.

    Raises:
        UserError: its index is of other vectors or passages than stand beside it now.
    """
    found, seed = current(system), load_params().seed
    index = PassageIndex.open(found.index)
    made_of = index_fingerprint(found.embeddings, index.factory, found.passages, system, seed, index.views)
    if made_of != fingerprint_of(found.index, system):
        raise UserError(
            f"{found.index}: made of other vectors or passages than now; build it again "
            f"(`dvc repro build_index@{system}`)"
        )
    return found


def _write(system: str, folder: Path, before: Version, gone: Rows, added: Added | None) -> None:
    """Write a version: the last one without some passages, and with new ones behind them. Everything is streamed.

    Args:
        gone: rows of passages that are left out. *Shape:* (any,).
    """
    new, params = Version.at(folder), load_params()
    keep = np.ones(count_rows(before.passages), dtype=bool)
    keep[gone] = False
    write_table(new.passages, PASSAGES, _passages(before, keep, added))
    count = count_rows(new.passages)
    rows = np.arange(len(keep)) if before.rows is None else np.load(before.rows, mmap_mode="r")
    assert new.rows is not None
    np.save(new.rows, np.concatenate([rows[keep], np.full(count - keep.sum(), -1)]))
    _write_embeddings(before, new, keep, added)
    factory = PassageIndex.open(before.index).factory
    build(new.embeddings, new.index, factory=factory, pids=new.passages, system=system, seed=params.seed)


def _passages(before: Version, keep: NDArray[np.bool_], added: Added | None) -> Iterator[pa.RecordBatch]:
    first = 0
    for batch in open_table(before.passages, PASSAGES).iter_batches(batch_size=ROW_GROUP):
        yield batch.filter(pa.array(keep[first : first + len(batch)]))
        first += len(batch)
    if added is not None:
        yield from open_table(added.table, PASSAGES).iter_batches(batch_size=ROW_GROUP)


def _write_embeddings(before: Version, new: Version, keep: NDArray[np.bool_], added: Added | None) -> None:
    """Copy the vectors of passages that stay, and encode new passages behind them."""
    old, made_from = read_manifest(before.embeddings), fingerprint(new.passages)
    shape = (count_rows(new.passages) * old.views, old.shape[1])
    with ArrayWriter(new.embeddings, shape, old.dtype) as writer:
        at = 0
        for first, block in iterate_views(before.embeddings):
            kept = block[keep[first : first + len(block)]].reshape(-1, shape[1])
            writer.write(at, kept)
            at += len(kept)
        if added is not None:
            table = open_table(added.table, PASSAGES)
            with tqdm(total=shape[0] - at, desc="passages", unit=" passages", disable=None) as bar:
                for batch in table.iter_batches(batch_size=AT_A_TIME):
                    writer.write(at, added.encode(pl.DataFrame(batch)))
                    at += len(batch)
                    bar.update(len(batch))
        mark = fingerprint(before=old.fingerprint, passages=made_from)
        writer.finish(replace(old, shape=shape, input_fingerprint=made_from, fingerprint=mark))
