"""Work in windows that ranks share, and of which a killed run keeps those that it has finished."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gnn_encoder.core import distributed
from gnn_encoder.core.progress import tqdm

Numbers = Iterator[int]  # of windows


def resume_windows(
    folder: Path,
    name: str,
    rows: int,
    window: int,
    work: Callable[[Numbers], Iterator[tuple[int, Any]]],
    write: Callable[[Path, int, Any], None],
    *,
    label: str,
    unit: str,
) -> list[Path]:
    """Compute the windows whose files do not exist yet, shared by all devices. Returns the files of all.

    Args:
        name: of a window's file, such as `part-{:06d}.parquet`; it exists only when it is complete.
        rows: rows of all windows together.
        window: rows of one window.
        work: yields (window, result) for each of the window numbers it gets.
        write: writes a window's result to the file that it gets.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / name.format(number) for number in range(-(-rows // window))]
    waiting = [number for number, file in enumerate(files) if not file.exists()]
    distributed.barrier()  # every rank must list the missing files before any rank writes one
    mine = waiting[distributed.rank() :: distributed.world_size()]
    done = min(rows, (len(files) - len(waiting)) * window)
    with tqdm(total=rows, initial=done, desc=label, unit=f" {unit}") as bar:
        for number, result in work(iter(mine)):
            unfinished = folder / f".{files[number].name}"
            write(unfinished, number, result)
            unfinished.rename(files[number])
            bar.update(min(window, rows - number * window) * distributed.world_size())
    distributed.barrier()
    return files
