"""`gnn-encoder export`: writes a folder beside its place and renames it, so that a kill leaves nothing half-written."""

import shutil
from pathlib import Path

from gnn_encoder.core.errors import UserError
from gnn_encoder.core.storage.atomic import publish
from gnn_encoder.core.systems import registry
from gnn_encoder.exporting.query_encoder import export_query_encoder
from gnn_encoder.exporting.vectors import FORMATS

MODEL = "sentence-transformers"


def export(system: str, to: str, folder: Path) -> list[Path]:
    """Export a built system, and name the files.

    Args:
        system: a dense system.
        to: `sentence-transformers` for its query encoder, or a format of its passage vectors.
        folder: a new folder.

    Raises:
        UserError: the system or the format is unknown, the folder exists, or an artifact is missing.
    """
    dense = registry().dense
    if system not in dense:
        raise UserError(f"--system is {system!r}: must be one of {', '.join(dense)}")
    if to != MODEL and to not in FORMATS:
        raise UserError(f"--to is {to!r}: must be one of {', '.join([MODEL, *FORMATS])}")
    if folder.exists():
        raise UserError(f"{folder}: exists already; name a new folder, or remove it")
    beside = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    try:
        if to == MODEL:
            export_query_encoder(Path(dense[system].encoder), beside, title=dense[system].title)
        else:
            FORMATS[to](system, beside)
        publish(beside, folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return sorted(path for path in folder.rglob("*") if path.is_file())
