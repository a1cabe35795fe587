"""The error for a user's mistake, told in one line."""

import errno
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CURES = {
    errno.EACCES: "change its permissions or its owner",
    errno.EPERM: "change its permissions or its owner",
    errno.EROFS: "work on a disk that can be written",
    errno.ENOENT: "correct its name, or make it again",
    errno.EISDIR: "a file must be there",
    errno.ENOTDIR: "a folder must be there",
}


class UserError(ValueError):
    """A mistake in data, parameters or files that the user can mend.

    The message is one line: the place (file, row, column or parameter), the value received, the rule, the cure.
    `gnn_encoder.pipeline.stage.run` and the command line print it without a traceback and exit with status 2.
    """


def not_built(path: Path | str) -> UserError:
    """The error for an artifact that is missing; every command and stage names the same cure."""
    cure = "`bash scripts/reproduce.sh` builds the main branch, `dvc repro -P` everything"
    return UserError(f"{path}: not built yet; {cure}")


def without_controls(text: str) -> str:
    r"""A text for a terminal, on one line, with control characters shown as \x1b: a terminal would obey them."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", lambda one: f"\\x{ord(one[0]):02x}", " ".join(text.split()))


@contextmanager
def report_errors() -> Iterator[None]:
    """Turn a user's mistake, a file that does not open or a full disk into one line on stderr and a non-zero exit."""
    try:
        yield
    except UserError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)
    except Exception as error:
        if told := _refused_file(error):
            sys.stderr.write(f"error: {told}\n")
            sys.exit(2)
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


def _refused_file(error: BaseException) -> str | None:
    """What the system says of a file that it does not open, with the cure; None for any other error."""
    if not isinstance(error, OSError) or error.errno in (None, errno.ENOSPC, errno.EDQUOT):
        return None
    if error.filename is None and error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
        return None  # nobody's file; Arrow and polars tell the name of one in the message alone
    said = f"{error.filename}: {error.strerror}" if error.filename is not None else " ".join(str(error).split())
    return f"{said}; {CURES.get(error.errno, 'correct that, then run again')}"


def _is_full_disk(error: BaseException) -> bool:
    """Whether a write failed for want of space; some libraries say this only in their message."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    # safetensors, polars and faiss quote the system; numpy's tofile only counts what it could write.
    words = r"No space left on device|os error 28|Disk quota exceeded|^\d+ requested and \d+ written$"
    return re.search(words, str(error)) is not None
