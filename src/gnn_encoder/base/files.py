"""Files that are whole or not there: moved into place at once, told by a hash, made again where they are damaged."""

import errno
import gzip
import hashlib
import json
import logging
import os
import shutil
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from gnn_encoder.base import distributed
from gnn_encoder.base.errors import UserError, check_file, not_built

MANIFEST = "manifest.json"
SCRATCH = Path(".scratch")  # where work waits that is not finished, and small caches lie; git and DVC ignore it
WORK = ".work"  # subfolder of an unfinished artifact, for files that only a resumed call needs; deleted at the end
Form = TypeVar("Form")
_digest = partial(hashlib.blake2b, digest_size=16)
log = logging.getLogger(__name__)


def publish(source: Path, target: Path) -> None:
    """Replace the file or folder `target` by `source`, both on one file system.

    A kill in between leaves `target` absent or whole. The old folder is renamed away first, since the system
    cannot replace a folder that is not empty. All is on the disk before the new name is, and the name before the end:
    where the machine stops, the system may lose what was not synced, a name as well as what a file holds.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    sync(source)
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


def sync(place: Path) -> None:
    """Wait until a file, or a folder with all that it holds, is on the disk."""
    for path in [*place.rglob("*"), place]:
        _sync(path)


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


@contextmanager
def replacing(target: Path, *, own: bool = False) -> Iterator[Path]:
    """An empty folder beside `target`, which takes its place once it is filled, and goes if that fails.

    What stands there already is refused, unless it is the caller's `own`, which is replaced.
    """
    if target.exists() and not own:
        raise UserError(f"{target}: exists already; name a new folder, or remove it")
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
    """Read what `write_json` wrote, such as a dataclass or a dict."""
    if not path.is_file():
        raise not_built(path)
    try:
        return TypeAdapter(form).validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        told = ": ".join([".".join(map(str, first["loc"])), first["msg"]]).removeprefix(": ")
        raise UserError(f"{path}: not what its stage writes ({told}); run the stage that makes it again") from error


def fingerprint(*inputs: Path, **values: object) -> str:
    """Hash the content of `inputs` (files or folders) together with `values` (anything JSON can hold).

    Of a folder whose manifest holds a fingerprint, that fingerprint is hashed instead of the content, so that a matrix
    of many gigabytes is not read again. Returns 32 hexadecimal digits.
    """
    digest = _digest(json.dumps(values, sort_keys=True, default=str).encode())
    for path in inputs:
        digest.update(_path_digest(path))
    return digest.hexdigest()


def _path_digest(path: Path) -> bytes:
    if path.is_file():
        with path.open("rb") as file:
            return hashlib.file_digest(file, _digest).digest()
    if own := _manifest(path).get("fingerprint"):
        return str(own).encode()
    digest = _digest()
    for child in sorted(p for p in path.rglob("*") if p.is_file()):
        digest.update(child.relative_to(path).as_posix().encode())
        digest.update(_path_digest(child))
    return digest.digest()


def _manifest(folder: Path) -> dict[str, Any]:
    """An artifact's manifest; empty where it has none."""
    path = folder / MANIFEST
    try:
        return dict(json.loads(path.read_bytes())) if path.is_file() else {}
    except (ValueError, TypeError) as error:
        raise UserError(f"{path}: damaged; delete the folder and run its stage again") from error


def seal(folder: Path) -> None:
    """Write into an artifact's manifest which files the folder holds, by which `is_damaged` tells."""
    write_json(folder / MANIFEST, _manifest(folder) | {"sizes": _sizes(folder)})


def is_damaged(folder: Path) -> bool:
    """Whether a sealed artifact lacks a file, or has another or one of another size; what they hold is DVC's matter."""
    try:
        sealed = _manifest(folder).get("sizes")
        return sealed is not None and sealed != _sizes(folder)
    except UserError:
        return True


def check_undamaged(path: Path, command: Callable[[Path], str] = lambda artifact: "dvc repro") -> None:
    """Refuse a sealed artifact, or a part of one, that holds anything else than when it was sealed.

    `command`: what makes an artifact again.
    """
    for folder in (path, *path.parents):
        if is_damaged(folder):
            cure = f"make it again: `{command(folder)}`"
            raise UserError(f"{folder}: damaged: it does not hold what its stage wrote; {cure}")


def _sizes(folder: Path) -> dict[str, int]:
    """Bytes of each file but the manifest, by its path."""
    files = (path for path in folder.rglob("*") if path.is_file() and path != folder / MANIFEST)
    return {path.relative_to(folder).as_posix(): path.stat().st_size for path in sorted(files)}


def cached(place: Path, name: str, key: str, make: Callable[[Path], None], *, keep: int) -> Path:
    """A cache for some `key`: place/name-key. It is made where it is missing or damaged, which the first rank sees to.

    `key` is a fingerprint of all that decides the content, and `make` fills an empty folder. Of the caches of a name
    the `keep` that were used last stay.
    """
    folder = place / f"{name}-{key}"
    if distributed.is_first():
        others = [path for path in place.glob(f"{name}-*") if path != folder]
        for old in sorted(others, key=lambda path: path.stat().st_mtime, reverse=True)[keep - 1 :]:
            shutil.rmtree(old, ignore_errors=True)  # whoever has it mapped still reads it
        for half in [path for path in place.glob(f".{name}-*") if path.stat().st_mtime < time.time() - 24 * 60 * 60]:
            shutil.rmtree(half, ignore_errors=True)  # a kill left it; a younger one may be in work
        if not (folder / MANIFEST).is_file() or is_damaged(folder):
            if folder.exists():
                log.warning("warning: %s: damaged; it is made again", folder)
                shutil.rmtree(folder)
            beside = place / f".{folder.name}.{token_hex(4)}"  # two processes may make the same at a time
            beside.mkdir(parents=True)
            try:
                make(beside)
                seal(beside)
                if not folder.exists():
                    publish(beside, folder)
            finally:
                shutil.rmtree(beside, ignore_errors=True)
        os.utime(folder)
    distributed.barrier()
    return folder


BYTE_ORDER_MARK = b"\xef\xbb\xbf"
GZIP = b"\x1f\x8b"  # how a gzip file begins, whatever its name is


@contextmanager
def open_binary(path: Path) -> Iterator[BinaryIO]:
    """Open a plain or gzip file, whatever its name is, as a stream of its plain bytes; once, since it may be a pipe."""
    check_file(path)
    with path.open("rb") as file:
        packed = file.peek(2).startswith(GZIP)
        try:
            yield cast(BinaryIO, gzip.GzipFile(fileobj=file)) if packed else file
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise UserError(f"{path}: gzip data cut off or damaged ({error}); fetch or compress it again") from error


def without_marks(line: bytes) -> bytes:
    """A line without the byte order marks at its start."""
    while line.startswith(BYTE_ORDER_MARK):
        line = line.removeprefix(BYTE_ORDER_MARK)
    return line
