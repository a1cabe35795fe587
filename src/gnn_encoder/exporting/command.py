"""`gnn-encoder export`: writes a folder beside its place and renames it, so that a kill leaves nothing half-written."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.files import replacing
from gnn_encoder.pipeline.project import registry

# Format -> the module and function that write it; imported when asked for, since some load torch.
FORMATS = {
    "sentence-transformers": ("query_encoder", "export_sentence_transformer"),
    "onnx": ("query_encoder", "export_onnx"),
    "npy": ("vectors", "export_npy"),
    "parquet": ("vectors", "export_parquet"),
    "faiss": ("vectors", "export_faiss"),
    "beir": ("beir", "export_beir"),
}


def export(system: str, to: str, folder: Path) -> list[Path]:
    """Export a built system, and name the files."""
    if system not in registry().dense:
        raise UserError(f"--system is {system!r}: must be one of {', '.join(registry().dense)}")
    if to not in FORMATS:
        raise UserError(f"--to is {to!r}: must be one of {', '.join(FORMATS)}")
    if folder.exists():
        raise UserError(f"{folder}: exists already; name a new folder, or remove it")
    module, name = FORMATS[to]
    write: Callable[[str, Path], None] = getattr(import_module(f"gnn_encoder.exporting.{module}"), name)
    with replacing(folder) as beside:
        write(system, beside)
    return sorted(path for path in folder.rglob("*") if path.is_file())
