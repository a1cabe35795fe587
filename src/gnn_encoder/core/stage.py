"""How every stage runs: inputs there, output built in a scratch place, moved into place whole, errors in one line."""

import errno
import logging
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel

from gnn_encoder.core.errors import UserError
from gnn_encoder.core.storage.atomic import publish, write_json
from gnn_encoder.core.storage.fingerprint import MANIFEST, code_fingerprint, fingerprint

SCRATCH = Path(".scratch")
TIMES = SCRATCH / "times"  # how long each artifact took here; in none of them, or no run would equal another
WORK = ".work"  # subfolder of an artifact under construction for what only resuming needs; dropped at the end
log = logging.getLogger(__name__)


@contextmanager
def output(target: Path, inputs: list[Path], params: dict[str, BaseModel | object]) -> Iterator[Path]:
    """Build one artifact folder.

    Yields a scratch folder named after everything that decides the result: content of `inputs`, `params`, code. After
    a kill the same call yields the same folder, with what was done in it. On success it becomes `target`, in one move;
    on an error `target` stays as it was.

    Under torchrun every rank works in the one folder (a shared file system); the first one moves it.
    """
    from gnn_encoder.core import distributed

    for path in inputs:
        if not path.exists():
            raise UserError(f"{path}: no such file; run the stage that makes it first (`dvc repro`)")
    started = time.monotonic()
    plain = {name: p.model_dump() if isinstance(p, BaseModel) else p for name, p in params.items()}
    key = fingerprint(*inputs, params=plain, code=code_fingerprint(), target=target.as_posix())
    name = artifact_name(target)
    scratch = SCRATCH / name / key
    aside = SCRATCH / name / f"{key}{WORK}"
    if aside.exists() and distributed.is_first():  # killed in the last step
        scratch.mkdir(exist_ok=True)
        aside.rename(scratch / WORK)
    distributed.barrier()
    resumed = scratch.exists()
    distributed.barrier()
    scratch.mkdir(parents=True, exist_ok=True)
    (scratch / WORK).mkdir(exist_ok=True)
    if resumed and distributed.is_first():
        log.info("%s: resuming what an interrupted run left in %s", name, scratch)
    yield scratch
    distributed.barrier()
    if distributed.is_first():
        # Not deleted before the artifact is in place: a kill in between would lose a whole training.
        (scratch / WORK).rename(aside)
        if not (scratch / MANIFEST).exists():
            # Of what it holds, not of the code or the inputs: an artifact that is made again as it was must not run
            # what follows again, and one that came out otherwise must not pass for the former.
            write_json(scratch / MANIFEST, {"fingerprint": fingerprint(scratch, params=plain), "params": plain})
        # A resumed run's time is that of its last part: worth nothing.
        seconds = None if resumed else round(time.monotonic() - started, 1)
        write_json(TIMES / f"{name}.json", {"seconds": seconds, "inputs": [path.as_posix() for path in inputs]})
        publish(scratch, target)
        shutil.rmtree(SCRATCH / name, ignore_errors=True)
    distributed.barrier()


def artifact_name(target: Path) -> str:
    """An artifact's name in one word: its place below data/."""
    return "-".join(target.parts[1:] or target.parts)


def run(main: Callable[[], None]) -> None:
    """Run a stage's `main`: logging on, torch.distributed up under torchrun, a user's mistake told in one line."""
    from gnn_encoder.core import distributed

    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    with report_errors(), distributed.session():
        main()


@contextmanager
def report_errors() -> Iterator[None]:
    """Turn a user's mistake or a full disk into one line on stderr and a non-zero exit."""
    try:
        yield
    except UserError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)
    except Exception as error:
        if not _is_full_disk(error):
            raise
        filename = getattr(error, "filename", None)
        where = f" while writing {filename}" if filename else ""
        free = shutil.disk_usage(".").free // 2**20
        sys.stderr.write(
            f"error: no space left on the disk{where} ({free} MiB free); existing artifacts are untouched: "
            "free space (`dvc gc -w` drops cached versions no longer in use), then run again\n"
        )
        sys.exit(2)


def _is_full_disk(error: BaseException) -> bool:
    """Whether a write failed for want of space; some libraries say so in words only."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    # safetensors, polars and faiss quote the system; numpy's tofile only counts what it could write.
    words = r"No space left on device|os error 28|Disk quota exceeded|^\d+ requested and \d+ written$"
    return re.search(words, str(error)) is not None
