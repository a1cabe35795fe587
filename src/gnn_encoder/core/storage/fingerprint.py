"""What an artifact was made from, as a short hash of its inputs, parameters and code."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import gnn_encoder
from gnn_encoder.core.errors import UserError
from gnn_encoder.core.storage.atomic import write_json

MANIFEST = "manifest.json"


def fingerprint(*inputs: Path, **values: object) -> str:
    """Hash the content of `inputs` (files or folders) together with `values` (anything JSON can hold).

    Of a folder whose manifest holds a fingerprint, that fingerprint is hashed instead of the content, so that a matrix
    of many gigabytes is not read again.

    Returns:
        32 hexadecimal digits.
    """
    digest = hashlib.blake2b(digest_size=16)
    digest.update(json.dumps(values, sort_keys=True, default=str).encode())
    for path in inputs:
        digest.update(_path_digest(path))
    return digest.hexdigest()


def recorded_params(folder: Path) -> dict[str, Any]:
    """The parameters that an artifact's manifest says it was made with; none where it has no manifest."""
    found: dict[str, Any] = _manifest(folder).get("params", {})
    return found


def seal(folder: Path) -> None:
    """Write into an artifact's manifest what the folder holds, by which `is_damaged` tells."""
    write_json(folder / MANIFEST, _manifest(folder) | {"content": _content(folder)})


def is_damaged(folder: Path) -> bool:
    """Whether a sealed artifact holds anything else than when it was sealed. All is read: a second a gigabyte."""
    try:
        sealed = _manifest(folder).get("content", "")
        return bool(sealed) and sealed != _content(folder)
    except UserError:
        return True


def check_undamaged(path: Path) -> None:
    """Refuse a sealed artifact, or a part of one, that holds anything else than when it was sealed."""
    for folder in (path, *path.parents):
        if is_damaged(folder):
            raise UserError(f"{folder}: damaged: it does not hold what its stage wrote; make it again (`dvc repro`)")


def _content(folder: Path) -> str:
    """A hash of all files but the manifest, and of what that says of other things."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / MANIFEST)
    manifest = {name: value for name, value in _manifest(folder).items() if name != "content"}
    return fingerprint(*files, names=[str(path.relative_to(folder)) for path in files], manifest=manifest)


def _manifest(folder: Path) -> dict[str, Any]:
    """An artifact's manifest; empty where it has none."""
    path = folder / MANIFEST
    try:
        return dict(json.loads(path.read_bytes())) if path.is_file() else {}
    except (ValueError, TypeError) as error:
        raise UserError(f"{path}: damaged; delete the folder and run its stage again") from error


def code_fingerprint(paths: Iterable[Path], root: Path | None = None) -> str:
    """Hash Python files and folders of them, so that half-done work is resumed only by the code that began it.

    Args:
        paths: relative to `root`.
        root: None: the folder that this package's `src/` lies in.
    """
    root = root or Path(gnn_encoder.__file__).parents[2]
    digest = hashlib.blake2b(digest_size=16)
    for path in paths:
        for file in [root / path] if path.suffix else sorted((root / path).rglob("*.py")):
            digest.update(file.relative_to(root).as_posix().encode())
            digest.update(file.read_bytes() if file.is_file() else b"")
    return digest.hexdigest()


def _path_digest(path: Path) -> bytes:
    if path.is_file():
        with path.open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).digest()
    if own := _manifest(path).get("fingerprint"):
        return str(own).encode()
    digest = hashlib.blake2b(digest_size=16)
    for child in sorted(p for p in path.rglob("*") if p.is_file()):
        digest.update(child.relative_to(path).as_posix().encode())
        digest.update(_path_digest(child))
    return digest.digest()
