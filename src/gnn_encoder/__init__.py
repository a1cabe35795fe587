"""Query-informed dense passage retrieval: GNN-encoder (Liu et al. 2022) as a pipeline of cached stages."""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gnn_encoder.estimator import GNNEncoder
    from gnn_encoder.searcher import Hit, Searcher

# Before torch is loaded, which reads it once: a thread that waits for others must not spin. Beside another busy process
# stages took four times as long.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

__version__ = "0.1.0"
__all__ = ["GNNEncoder", "Hit", "Searcher", "__version__"]


def __getattr__(name: str) -> Any:
    """`GNNEncoder`, `Searcher` and `Hit`, imported when they are asked for: stages and `--help` need none."""
    if name == "GNNEncoder":
        return import_module("gnn_encoder.estimator").GNNEncoder
    if name in ("Hit", "Searcher"):
        return getattr(import_module("gnn_encoder.searcher"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
