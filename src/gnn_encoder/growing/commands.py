"""`gnn-encoder add`, `delete` and `log`: each writes one segment, and then the state that has it."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
from numpy.typing import NDArray
from tqdm import tqdm

from gnn_encoder.core.errors import UserError
from gnn_encoder.core.records import open_table
from gnn_encoder.core.storage.tables import count_rows, write_table
from gnn_encoder.growing.labels import labels_lower
from gnn_encoder.growing.made import Grower, Made
from gnn_encoder.growing.overlay import Overlay, changing, commit, current_index, read_manifest, read_overlay
from gnn_encoder.growing.reading import Log, known_queries, log_of, read_log, read_pids, write_passages
from gnn_encoder.growing.segment import (
    CACHED,
    DELETED,
    EDGES,
    GROWN,
    LOGGED,
    PAIRS,
    VECTORS,
    Entry,
    append,
    matrix_writer,
)
from gnn_encoder.growing.systems import check_system, check_takes_queries, open_grower
from gnn_encoder.pipeline import project

Rows = NDArray[np.int64]
Making = Callable[[pl.DataFrame, Rows], Made]
AT_A_TIME = 8_192  # passages that are encoded together
LOWERED = (
    "the passages that these queries are labelled with may fall: on dev, one that had been an answer before was the "
    "less likely answer; docs/growing.md says more"
)


@dataclass(frozen=True)
class Outcome:
    """What a command did, in words, how many passages can be found now, and what its user should know besides."""

    told: str
    passages: int
    warning: str | None = None


def add(system: str, path: Path) -> Outcome:
    """Add passages; one with the id of another that is there replaces it.

    Args:
        system: a dense system with one vector a passage.
        path: JSON lines with `_id`, `text` and, if there is one, `title`, plain or .gz.

    Raises:
        UserError: a row is wrong, the system cannot grow, or an artifact is missing.
    """
    check_system(system)
    with changing(system):
        overlay = open_overlay(system)
        folder = _new_segment(overlay)
        write_passages(path, folder / "passages.parquet")
        overlay, replaced = _with_added(overlay, open_grower(overlay), NOTHING_DELETED)
        commit(overlay.manifest)
    added = overlay.manifest.segments[-1].passages
    told = f"{counted(added, 'passage')} added, {replaced:,} of them in place of older versions"
    return Outcome(told, live(overlay))


def delete(system: str, pids: Iterable[str], path: Path | None = None) -> Outcome:
    """Delete passages by their ids; those in `path` stand one a line.

    Raises:
        UserError: an id is unknown, or its passage was deleted before; nothing is deleted then.
    """
    check_system(system)
    with changing(system):
        overlay = open_overlay(system)
        wanted = read_pids(pids, path)
        found = overlay.find(wanted["pid"])
        unknown = wanted.join(found, on="pid", how="anti", maintain_order="left")
        if len(unknown):
            raise _not_there(overlay, unknown)
        _new_segment(overlay)
        entry = Entry(number=overlay.manifest.following, deleted=len(found))
        _write_deletions(overlay.path(entry.number), overlay.deletions(found, for_good=True))
        overlay = Overlay(overlay.manifest.with_segment(entry))
        commit(overlay.manifest)
    return Outcome(f"{counted(len(found), 'passage')} deleted", live(overlay))


def log(system: str, path: Path) -> Outcome:
    """Take in logged queries, and make anew the passages that they reach.

    Args:
        system: one with a graph, or that shifts passages by their labelled queries.
        path: a query a line, with a tab and a passage's id behind it if it is labelled, and perhaps a count.

    Raises:
        UserError: a row is wrong, a passage is unknown, or the system has no use for queries.
    """
    check_takes_queries(system)
    with changing(system):
        overlay = open_overlay(system)
        given = read_log(path)
        _check_known(overlay, given)
        grower = open_grower(overlay)
        new, reached = _without_known(given, grower), 0
        if len(new.queries):
            _new_segment(overlay)
            overlay = _with_logged(overlay, grower, new)
            commit(overlay.manifest)
            reached = overlay.manifest.segments[-1].passages
    known = len(given.queries) - len(new.queries)
    told = f"{counted(len(new.queries), 'query')} taken in, {counted(reached, 'passage')} informed anew"
    told += f"; {counted(known, 'query')} known already" if known else ""
    lowered = LOWERED if len(new.pairs) and labels_lower(system) else None
    return Outcome(told, live(overlay), lowered)


def again(system: str) -> Outcome:
    """Bring what was added, deleted and logged onto an index that was built since.

    Passages are encoded and linked anew, deleted ones stay deleted. Passages that the new build has word for word, and
    queries that it has, are left out.

    Raises:
        UserError: nothing was added or deleted, or it belongs to the present index.
    """
    check_system(system)
    with changing(system):
        manifest = read_manifest(system)
        fresh = current_index(system)
        if manifest is None or not manifest.segments:
            raise UserError(f"{project.index(system)}: nothing was added to it or deleted from it; leave out --again")
        if manifest.index == fresh.index:
            raise UserError(f"{project.index(system)}: what was added belongs to this very index; leave out --again")
        before = Overlay(manifest)
        overlay = Overlay(fresh.model_copy(update={"following": manifest.following}))
        folder = _new_segment(overlay)
        write_table(folder / "passages.parquet", GROWN, (part.to_arrow() for part in _still_added(before)))
        overlay, _ = _with_added(overlay, open_grower(overlay), _still_deleted(before, overlay))
        told = f"{counted(overlay.manifest.segments[-1].passages, 'passage')} added anew"
        if before.queries:
            grower = open_grower(overlay)
            new = _without_known(_still_logged(before, overlay), grower)
            if len(new.queries):
                _new_segment(overlay)
                overlay = _with_logged(overlay, grower, new)
            told += f", {counted(len(new.queries), 'query')} taken in anew"
        commit(overlay.manifest)
    return Outcome(told, live(overlay))


def open_overlay(system: str) -> Overlay:
    """The present state over the present index; it is empty where nothing was added or deleted.

    Raises:
        UserError: the index is missing, or what was added belongs to another one.
    """
    fresh = current_index(system)
    if count_rows(project.PASSAGES) != fresh.passages:
        raise UserError(
            f"{project.index(system)}: holds {fresh.passages} passages, {project.PASSAGES} has "
            f"{count_rows(project.PASSAGES)}; build the index again (`dvc repro build_index@{system}`)"
        )
    manifest = read_manifest(system)
    number = manifest.following if manifest else fresh.following
    return read_overlay(system, fresh.index) or Overlay(fresh.model_copy(update={"following": number}))


def live(overlay: Overlay) -> int:
    """Passages that can be found."""
    return overlay.rows - len(overlay.dead)


def counted(number: int, noun: str) -> str:
    """`1 query`, `2 queries`."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def _not_there(overlay: Overlay, missing: pl.DataFrame) -> UserError:
    """The error of ids that cannot be found. `missing`: columns pid, place, where it was given."""
    place, pid = missing["place"][0], missing["pid"][0]
    index = project.index(overlay.manifest.system)
    before = any(pid in segment.deleted["pid"] for segment in overlay.segments)
    why = f"passage {pid!r} was deleted before" if before else f"no passage {pid!r} is in {index}"
    more = f" (and {len(missing) - 1:,} more)" if len(missing) > 1 else ""
    return UserError(f"{place}: {why}{more}; nothing is deleted: leave out what is not there")


# --- segments ---------------------------------------------------------------------------------------------------------

NOTHING_DELETED = pl.DataFrame(schema=pl.Schema(DELETED))


def _new_segment(overlay: Overlay) -> Path:
    folder = overlay.path(overlay.manifest.following)
    folder.mkdir()
    return folder


def _with_added(overlay: Overlay, grower: Grower, deleted: pl.DataFrame) -> tuple[Overlay, int]:
    """The state with the passages that stand in the next segment's table, and how many older versions they replace.

    Args:
        deleted: as `DELETED`, what the segment hides besides.
    """
    folder = overlay.path(overlay.manifest.following)
    replaced = []

    def make(passages: pl.DataFrame, _: Rows) -> Made:
        found = overlay.find(passages["pid"])
        replaced.append(overlay.deletions(found, for_good=False))
        old = passages.select("pid").join(found, on="pid", how="left", maintain_order="left")
        return grower.add(passages, old["row"].fill_null(-1).to_numpy())

    count = _write_made(folder, overlay.manifest.dimension, make)
    every = pl.concat([deleted, *replaced]).unique(["segment", "row", "pid"], keep="first")
    _write_deletions(folder, every)
    entry = Entry(number=overlay.manifest.following, passages=count, deleted=len(every))
    return Overlay(overlay.manifest.with_segment(entry)), sum(map(len, replaced))


def _with_logged(overlay: Overlay, grower: Grower, queries: Log) -> Overlay:
    """The state with new queries, and with the passages that they reach made anew in the next segment."""
    folder = overlay.path(overlay.manifest.following)
    write_table(folder / "queries.parquet", LOGGED, [queries.queries.select("text").to_arrow()])
    write_table(folder / "pairs.parquet", PAIRS, [queries.pairs.select("query", "pid").to_arrow()])
    rows = grower.log(queries, folder)
    parts = (rows[first : first + AT_A_TIME] for first in range(0, len(rows), AT_A_TIME))
    write_table(folder / "passages.parquet", GROWN, (overlay.texts(part).to_arrow() for part in parts))
    _write_made(folder, overlay.manifest.dimension, lambda passages, at: grower.remake(passages, rows[at]))
    pids = pl.read_parquet(folder / "passages.parquet", columns=["pid"])["pid"]
    deleted = overlay.deletions(pl.DataFrame({"pid": pids, "row": rows}), for_good=False)
    _write_deletions(folder, deleted)
    number = overlay.manifest.following
    entry = Entry(number=number, passages=len(rows), queries=len(queries.queries), deleted=len(deleted))
    return Overlay(overlay.manifest.with_segment(entry))


def _write_made(folder: Path, dimension: int, make: Making) -> int:
    """Make the passages of a segment's table, some at a time, and write what is made; returns how many there are.

    Args:
        make: takes passages as `GROWN`, and their rows in the table.
    """
    table = folder / "passages.parquet"
    count, first = count_rows(table), 0
    with ExitStack() as files, tqdm(total=count, desc="passages", unit=" passages", disable=None) as bar:
        vectors = files.enter_context(matrix_writer(folder / VECTORS, (count, dimension), "float32")) if count else None
        cached = edges = None
        for batch in open_table(table, GROWN).iter_batches(batch_size=AT_A_TIME):
            passages = pl.DataFrame(batch)
            made = make(passages, first + np.arange(len(passages)))
            assert vectors is not None
            append(vectors, made.vectors, "float32")
            if made.cached is not None:
                dtype = made.cached.dtype.str
                cached = cached or files.enter_context(matrix_writer(folder / CACHED, (count, dimension), dtype))
                append(cached, made.cached, dtype)
            if made.edges is not None:
                edges = edges or files.enter_context(pq.ParquetWriter(folder / "edges.parquet", EDGES))
                at = EDGES.get_field_index("passage")
                moved = pl.Series(made.edges.column(at)) + first
                edges.write_table(made.edges.set_column(at, EDGES.field(at), moved.to_arrow()))
            first += len(passages)
            bar.update(len(passages))
    return count


def _write_deletions(folder: Path, deleted: pl.DataFrame) -> None:
    if len(deleted):
        write_table(folder / "deleted.parquet", DELETED, [deleted.select(DELETED.names).to_arrow()])


# --- logged queries ---------------------------------------------------------------------------------------------------


def _check_known(overlay: Overlay, given: Log) -> None:
    unknown = given.pairs.join(overlay.find(given.pairs["pid"]), on="pid", how="anti", maintain_order="left")
    if len(unknown):
        more = f" (and {len(unknown) - 1:,} more)" if len(unknown) > 1 else ""
        line, pid, index = unknown["line"][0], unknown["pid"][0], project.index(overlay.manifest.system)
        raise UserError(f"{line}, pid: no passage {pid!r} is in {index}{more}; add it first, or correct the line")


def _without_known(given: Log, grower: Grower) -> Log:
    """The queries that are not there already, with their labels."""
    known = known_queries(grower.known_queries(), given)
    rows = given.queries.with_row_index("number").filter(~pl.Series(known, dtype=pl.Boolean))
    numbers = rows.select(pl.col("number").cast(pl.Int32)).with_row_index("query")
    pairs = given.pairs.join(numbers, left_on="query", right_on="number", maintain_order="left")
    pairs = pairs.select(pl.col("query_right").cast(pl.Int32).alias("query"), "pid", "line")
    return Log(rows.drop("number"), pairs)


# --- on another build -------------------------------------------------------------------------------------------------


def _still_added(before: Overlay) -> Iterator[pl.DataFrame]:
    """The live passages that the user added, without those that the present build has word for word."""
    for segment in before.segments:
        if not segment.entry.passages:
            continue
        row = segment.first_row
        for batch in open_table(segment.passages, GROWN).iter_batches(batch_size=AT_A_TIME):
            passages = pl.DataFrame(batch)
            kept = before.is_live(row + np.arange(len(passages)))
            row += len(passages)
            passages = passages.filter(pl.Series(kept) & pl.col("added"))
            built = pl.scan_parquet(project.PASSAGES).filter(pl.col("pid").is_in(passages["pid"].implode()))
            yield passages.join(built.collect(engine="streaming"), on=["pid", "title", "text"], how="anti")


def _still_deleted(before: Overlay, overlay: Overlay) -> pl.DataFrame:
    """What the user deleted and did not add again, as `DELETED` of the present build."""
    gone = pl.concat([NOTHING_DELETED, *(one.deleted.filter("for_good") for one in before.segments)])
    gone = gone.select("pid").unique()
    for segment in before.segments:
        if segment.entry.passages:
            rows = pl.scan_parquet(segment.passages).select("pid").collect()["pid"]
            kept = rows.filter(pl.Series(before.is_live(segment.first_row + np.arange(len(rows)))))
            gone = gone.filter(~pl.col("pid").is_in(kept.implode()))
    found = gone.join(overlay.find(gone["pid"]), on="pid", how="left").with_columns(pl.col("row").fill_null(-1))
    return overlay.deletions(found, for_good=True)


def _still_logged(before: Overlay, overlay: Overlay) -> Log:
    """All logged queries, with their labels that are live."""
    tables = [one for one in before.segments if one.entry.queries]
    rows = []
    for segment in tables:
        texts = pl.read_parquet(segment.queries).with_row_index("query").with_columns(pl.col("query").cast(pl.Int32))
        rows.append(texts.join(pl.read_parquet(segment.pairs), on="query", how="left", maintain_order="left"))
    every = pl.concat(rows)
    known = overlay.find(every["pid"].drop_nulls())["pid"]
    pid = pl.when(pl.col("pid").is_in(known.implode())).then(pl.col("pid"))
    return log_of(every.select("text", pid=pid, line=pl.lit("")))
