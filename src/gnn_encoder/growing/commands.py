"""`gnn-encoder add` and `delete`: each writes a version of the index, whole, which then takes the place of the last."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from gnn_encoder.base.distributed import tqdm
from gnn_encoder.base.errors import UserError
from gnn_encoder.base.files import fingerprint
from gnn_encoder.base.matrix import ArrayWriter, Rows, read_manifest
from gnn_encoder.base.tables import PASSAGES, PICKED, ROW_GROUP, count_rows, open_table, read_column, write_table
from gnn_encoder.growing.reading import read_pids, rows_of, write_passages
from gnn_encoder.growing.versions import Version, current, next_version
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import load_params
from gnn_encoder.pipeline.project import registry
from gnn_encoder.presenting.formats import counted
from gnn_encoder.search.exact import iterate_views
from gnn_encoder.search.faiss_index import PassageIndex, build

AT_A_TIME = 1_024  # passages that are encoded together: what is in memory grows with the queries that retrieve them


Encode = Callable[[pl.DataFrame], NDArray[np.float32]]  # columns pid, title, text; *Shape:* (b,) -> (b, d)


def add(system: str, path: Path) -> str:
    """Add passages, and say what was done; one with the id of another that is there replaces it.

    Args:
        system: a dense system whose passages are made of their texts, and of a graph if it has one.
        path: JSON lines with `_id`, `text` and, if there is one, `title`, plain or .gz.

    Returns:
        What was done, in a line.
    """
    check_system(system, takes_passages=True)
    with next_version(system) as folder:
        before, table = current(system).checked(), folder / "added.parquet"
        write_passages(path, table)
        replaced = rows_of(before.passages, pl.Series(read_column(table, "pid")))["row"].to_numpy()
        added = count_rows(table)
        _write(system, folder, before, replaced, table)
        table.unlink()
    replacing = f", {len(replaced):,} of them in place of others" if len(replaced) else ""
    return f"added {counted(added, 'passage')}{replacing}; {_holds(system)}"


def delete(system: str, pids: Iterable[str], path: Path | None = None) -> str:
    """Delete passages by their ids, and say what was done; ids in `path` stand one a line.

    Nothing is deleted if an id is unknown, or if no passage would stay.
    """
    check_system(system, takes_passages=False)
    with next_version(system) as folder:
        before, wanted = current(system).checked(), read_pids(pids, path)
        found = rows_of(before.passages, wanted)
        unknown = wanted.filter(~wanted.is_in(found["pid"].implode()))
        if len(unknown):
            more = f" (and {len(unknown) - 1:,} more)" if len(unknown) > 1 else ""
            raise UserError(f"no passage {unknown[0]!r} is in the index of {system}{more}; nothing is deleted")
        if len(found) == count_rows(before.passages):
            raise UserError(f"these are all passages of {system}; nothing is deleted: an index needs one passage")
        _write(system, folder, before, found["row"].to_numpy())
    return f"deleted {counted(len(found), 'passage')}; {_holds(system)}"


def check_system(system: str, *, takes_passages: bool) -> None:
    """Refuse a system without vectors of its own and, for new passages, one whose vectors need more than texts."""
    known = registry()
    if system not in known.dense:
        raise UserError(f"--system is {system!r}: must be one of {', '.join(known.dense)}")
    made_of = dict.fromkeys(known.of_kind("views"), "generated") | dict.fromkeys(known.of_kind("shifted"), "labelled")
    if takes_passages and system in made_of:
        raise UserError(
            f"--system is {system!r}: its passages' vectors are made of {made_of[system]} queries, which new passages "
            "do not have; put them into the data and run `dvc repro -f prepare`, then `dvc repro`"
        )


def open_encoder(system: str) -> Encode:
    """What gives a system's new passages their vectors."""
    from gnn_encoder.growing.encoding import check_model, embed_new  # only here: it loads torch
    from gnn_encoder.pipeline.opening import load_encoder
    from gnn_encoder.text.encoder import DualEncoder

    params = load_params()
    if system in registry().of_kind("graph"):
        from gnn_encoder.growing.joining import GraphJoiner

        return GraphJoiner(system, params)
    folder = project.encoder(system)
    check_model(project.embeddings(system), DualEncoder.passage_fingerprint(folder), f"cache_passages@{system}")
    encoder = load_encoder(folder, params.encoder)
    return lambda passages: embed_new(encoder, passages, params.encoder.batch_tokens)


def _holds(system: str) -> str:
    return f"{system} now has {count_rows(current(system).passages):,}, and other systems are as they were"


def _write(system: str, folder: Path, before: Version, gone: Rows, added: Path | None = None) -> None:
    """Write a version: the last one without some passages, and with new ones behind them. Everything is streamed.

    Args:
        system: whose version it is.
        folder: where it is written.
        before: the last version.
        gone: rows of its passages that are left out.
        added: the table of new passages.
    """
    new, keep = Version.at(folder), np.ones(count_rows(before.passages), dtype=bool)
    keep[gone] = False
    write_table(new.passages, PASSAGES, _passages(before, keep, added), PICKED)
    rows = np.arange(len(keep)) if before.rows is None else np.load(before.rows, mmap_mode="r")
    assert new.rows is not None
    np.save(new.rows, np.concatenate([rows[keep], np.full(count_rows(new.passages) - keep.sum(), -1)]))
    _write_embeddings(system, before, new, keep, added)
    factory, seed = PassageIndex.open(before.index).factory, load_params().seed
    build(new.embeddings, new.index, factory=factory, pids=new.passages, system=system, seed=seed)


def _passages(before: Version, keep: NDArray[np.bool_], added: Path | None) -> Iterator[pa.RecordBatch]:
    first = 0
    for batch in open_table(before.passages, PASSAGES).iter_batches(batch_size=ROW_GROUP):
        yield batch.filter(pa.array(keep[first : first + len(batch)]))
        first += len(batch)
    if added is not None:
        yield from open_table(added, PASSAGES).iter_batches(batch_size=ROW_GROUP)


def _write_embeddings(system: str, before: Version, new: Version, keep: NDArray[np.bool_], added: Path | None) -> None:
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
            table, encode = open_table(added, PASSAGES), open_encoder(system)
            with tqdm(total=shape[0] - at, desc="passages", unit=" passages") as bar:
                for batch in table.iter_batches(batch_size=AT_A_TIME):
                    writer.write(at, encode(pl.DataFrame(batch)))
                    at += len(batch)
                    bar.update(len(batch))
        mark = fingerprint(before=old.fingerprint, passages=made_from)
        writer.finish(replace(old, shape=shape, input_fingerprint=made_from, fingerprint=mark, content=""))
