"""What a server takes and how much of it. Defaults suit one machine and queries as people type them."""

import os
from dataclasses import dataclass, fields
from math import isfinite

from gnn_encoder.core.errors import UserError

# Read once when numpy and FAISS are loaded, and by our own encoder.
VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds of what a request may ask for and of what may wait. All are whole numbers above 0 but those of seconds."""

    query: int = 1_000  # characters of a query
    hits: int = 100  # passages of a result
    body: int = 1_048_576  # bytes of a request
    waiting: int = 512  # queries that wait to be encoded
    batch: int = 32  # queries that are encoded together
    explanations: int = 8  # requests for an explanation that wait
    explain_seconds: float = 60.0  # until an explanation must be there
    start_seconds: float = 600.0  # until the process that explains must have started
    poll: float = 2.0  # seconds between looks whether an index is new
    drain: float = 30.0  # seconds that requests in flight have after SIGTERM

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not (value > 0 and isfinite(value)):
                raise UserError(f"{field.name} is {value}: must be a number above 0")


def use_threads(wanted: int | None) -> None:
    """Have numpy, FAISS and the process that explains use some threads each.

    Args:
        wanted: None: as the environment says, else half of the processor's cores. The threads of a matrix product wait
            for each other by spinning, so that they must not fill the cores that answer requests.
    """
    if wanted is None and not any(name in os.environ for name in VARIABLES):
        wanted = max(1, _cores() // 2)
    if wanted is not None:
        os.environ.update(dict.fromkeys(VARIABLES, str(wanted)))


def _cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
