"""Query-informed dense passage retrieval: GNN-encoder (Liu et al. 2022) as a pipeline of cached stages."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gnn_encoder.searcher import Hit, Searcher

__version__ = "0.1.0"
__all__ = ["Hit", "Searcher", "__version__"]


def __getattr__(name: str) -> Any:
    """`Searcher` and `Hit`, imported when they are asked for: stages and `--help` need neither."""
    if name in ("Hit", "Searcher"):
        return getattr(import_module("gnn_encoder.searcher"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
