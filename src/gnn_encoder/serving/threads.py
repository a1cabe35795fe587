"""How many threads embed and search. It is decided before numpy and FAISS are loaded, which read it once."""

import os

VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


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
