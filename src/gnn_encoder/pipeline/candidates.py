"""Candidates of many queries, searched for in windows: a kill keeps those that are done, and ranks share them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import polars as pl
import pyarrow as pa

from gnn_encoder.base.judgements import Identical
from gnn_encoder.base.matrix import Matrix, Numbers, Rows, Scores, resume_windows
from gnn_encoder.base.tables import CANDIDATES, candidates_table, read_table, write_part

WINDOW = 16_384  # queries of a window: each reads all passages once, in parts of 4,096 queries, which FAISS multiplies
PART = "candidates-{:06d}.parquet"
Asked = TypeVar("Asked", Matrix, list[str])  # queries as vectors or as texts


def find_candidates(
    find: Callable[[Asked], tuple[Rows, Scores]],
    queries: Asked,
    folder: Path,
    identical: Identical,
    pairs: pl.DataFrame,
    *,
    label: str,
) -> Iterator[pa.Table]:
    """Search for all queries that `folder` has no candidates of yet, and read those of all, window by window.

    Args:
        find: the best passages of some of the queries and their scores, as `candidates_table` takes them.
        folder: gets a CANDIDATES table a window.
        identical, pairs: tell which candidates are left out, as for `Identical.distinct`.
        label: of the progress bar.
    """

    def search(numbers: Numbers) -> Iterator[tuple[int, pl.DataFrame]]:
        for number in numbers:
            first = number * WINDOW
            found = candidates_table(*find(queries[first : first + WINDOW]), first=first)
            yield number, identical.distinct(pl.DataFrame(found), pairs)

    def write(path: Path, number: int, found: pl.DataFrame) -> None:
        write_part(path, CANDIDATES, [found.to_arrow()])

    files = resume_windows(folder, PART, len(queries), WINDOW, search, write, label=label, unit="queries")
    return (read_table(file, CANDIDATES).to_arrow() for file in files)
