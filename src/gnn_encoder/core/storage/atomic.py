"""Moving finished work into place: a reader sees the old artifact or the new one, never a half-written one."""

import errno
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from gnn_encoder.core import distributed
from gnn_encoder.core.errors import UserError, not_built

Form = TypeVar("Form")


def publish(source: Path, target: Path) -> None:
    """Replace the file or folder `target` by `source`, both on one file system.

    A kill in between leaves `target` absent or whole. The old folder is renamed away first, since the system
    cannot replace a folder that is not empty. All is on the disk before the new name is, and the name before the end:
    where the machine stops, the system may lose what was not synced, a name as well as what a file holds.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    for path in [*source.rglob("*"), source]:
        _sync(path)
    if source.is_dir() and target.exists():
        old = source.with_name(source.name + ".replaced")
        shutil.rmtree(old, ignore_errors=True)
        target.rename(old)
        source.rename(target)
        _sync(target.parent)
        shutil.rmtree(old)
    else:
        source.replace(target)
        _sync(target.parent)


def _sync(path: Path) -> None:
    """Wait until a file, or a folder's list of names, is on the disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some file systems sync no folder
            raise
    finally:
        os.close(number)


def check_room(folder: Path, needed: int, cure: str) -> None:
    """Refuse to begin files of so many bytes in a folder whose disk has fewer."""
    if needed > (free := shutil.disk_usage(folder).free):
        what = f"{folder} needs {needed / 2**20:,.0f} MiB, and {free / 2**20:,.0f} are free"
        raise UserError(f"no space left on the disk: {what}; free space, or {cure}")


def tidy(folder: Path) -> None:
    """Remove what killed writes left beside their places: files whose names begin with a dot."""
    for left in [path for path in folder.rglob(".*") if path.is_file()]:
        left.unlink()


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """An empty folder beside `target`, which takes its place once it is filled, and goes if that fails."""
    beside = target.with_name(f".{target.name}.partial")
    shutil.rmtree(beside, ignore_errors=True)
    try:
        beside.mkdir(parents=True)
    except OSError as error:
        raise UserError(f"{target}: {os.strerror(error.errno or 0)}; name a folder that can be made") from error
    try:
        yield beside
        publish(beside, target)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Write a small file whole: it is written beside its place and then renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(text, encoding="utf-8")
    publish(beside, path)


def write_json(path: Path, value: object) -> None:
    """Write `value` as indented JSON with a final newline, whole; a dataclass as an object of its fields.

    Of several ranks the first one writes.
    """
    if distributed.is_first():
        write_text(path, json.dumps(value, indent=2, ensure_ascii=False, default=asdict) + "\n")


def read_json(path: Path, form: type[Form]) -> Form:
    """Read what `write_json` wrote, such as a dataclass or a dict.

    Raises:
        UserError: there is no such file, or it holds something else.
    """
    if not path.is_file():
        raise not_built(path)
    try:
        return TypeAdapter(form).validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        told = ": ".join([".".join(map(str, first["loc"])), first["msg"]]).removeprefix(": ")
        raise UserError(f"{path}: not what its stage writes ({told}); run the stage that makes it again") from error
