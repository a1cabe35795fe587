"""Work in windows that ranks share as they ask for them, and of which a killed run keeps those that it has finished."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gnn_encoder.core import distributed
from gnn_encoder.core.progress import tqdm
from gnn_encoder.core.storage.atomic import publish

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
    for number, result in in_turn(work, waiting, rows, window, label=label, unit=unit):
        unfinished = folder / f".{files[number].name}"
        write(unfinished, number, result)
        publish(unfinished, files[number])
    return files


def in_turn(
    work: Callable[[Numbers], Iterator[tuple[int, Any]]],
    waiting: list[int],
    rows: int,
    window: int,
    *,
    label: str,
    unit: str,
) -> Iterator[tuple[int, Any]]:
    """Yield (window, result) of those waiting windows that this process gets; at the end all are done.

    An independent shard gets those that fall to it, and waits for nobody.
    """
    distributed.barrier()  # every rank must have listed what waits before any rank finishes some of it
    sizes = {number: min(window, rows - number * window) for number in waiting}
    with tqdm(total=rows, initial=rows - sum(sizes.values()), desc=label, unit=f" {unit}") as bar:
        for number, result in work(distributed.handed_out(waiting)):
            yield number, result
            bar.update(min(sizes[number] * distributed.world_size(), rows - bar.n))
    distributed.barrier()
