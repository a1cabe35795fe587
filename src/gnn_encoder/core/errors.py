"""The error for a user's mistake, told in one line."""

import errno
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class UserError(ValueError):
    """A mistake in data, parameters or files that the user can mend.

    The message is one line: the place (file, row, column or parameter), the value received, the rule, the cure.
    `gnn_encoder.pipeline.stage.run` and the command line print it without a traceback and exit with status 2.
    """


def not_built(path: Path | str) -> UserError:
    """The error for an artifact that is missing; every command and stage names the same cure."""
    cure = "`bash scripts/reproduce.sh` builds the main branch, `dvc repro -P` everything"
    return UserError(f"{path}: not built yet; {cure}")


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
    """Whether a write failed for want of space; some libraries say this only in their message."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    # safetensors, polars and faiss quote the system; numpy's tofile only counts what it could write.
    words = r"No space left on device|os error 28|Disk quota exceeded|^\d+ requested and \d+ written$"
    return re.search(words, str(error)) is not None
