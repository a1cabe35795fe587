"""The error for a user's mistake, told in one line."""

import errno
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

CURES = {
    errno.EACCES: "change its permissions or its owner",
    errno.EPERM: "change its permissions or its owner",
    errno.EROFS: "work on a disk that can be written",
    errno.ENOENT: "correct its name, or make it again",
    errno.EISDIR: "a file must be there",
    errno.ENOTDIR: "a folder must be there",
}
BEGINNING, END = 1_200, 500  # characters of an error that holds an id or a cell of thousands


class UserError(ValueError):
    """A mistake in data, parameters or files that the user can mend.

    The message is one line: the place (file, row, column or parameter), the value received, the rule, the cure.
    `gnn_encoder.pipeline.stage.run` and the command line print it without a traceback and exit with status 2.
    """


def not_built(path: Path | str) -> UserError:
    """The error for an artifact that is missing; every command and stage names the same cure."""
    others = "`dvc repro pipelines/NAME/dvc.yaml` another, `dvc repro -P` all"
    cure = f"`bash scripts/reproduce.sh` builds the main branch, {others}"
    return UserError(f"{path}: not built yet; {cure}")


def check_file(path: Path) -> None:
    """Refuse a file of the user's that is not there."""
    if path.is_dir() or not path.exists():  # a pipe is no regular file, and can be read
        raise UserError(f"{path}: {'a folder, not a file' if path.is_dir() else 'no such file'}; correct its path")


def shorten(value: object, limit: int = 60) -> str:
    """`value` as an error message shows it: quoted, on one line, at most about `limit` characters."""
    shown = ascii(value) if not isinstance(value, str) or not value.isprintable() else repr(value)
    return shown if len(shown) <= limit else f"{shown[:limit]}..."


def without_controls(text: str) -> str:
    r"""A text for a terminal, on one line, with control characters shown as \x1b: a terminal would obey them."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", lambda one: f"\\x{ord(one[0]):02x}", " ".join(text.split()))


@contextmanager
def report_errors() -> Iterator[None]:
    """Turn a user's mistake, a file that does not open or a full disk into one line on stderr and a non-zero exit.

    Of the processes that torchrun starts on a machine one tells it, and what torchrun starts again ends at once.
    """
    errors = os.environ.get("TORCHELASTIC_ERROR_FILE")  # RUN/attempt_0/RANK/error.json
    mark = Path(errors).parents[2] / "told" if errors else None
    if mark and mark.exists():
        sys.exit(2)
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)
    except Exception as error:
        known = _refused_file(error) or _full_disk(error) or _out_of_memory(error)
        told = str(error) if isinstance(error, UserError) else known
        if told is None and not (mark and mark.exists()):  # else another process has told what made this one fail too
            raise
        with suppress(FileExistsError):
            if mark:
                mark.touch(exist_ok=False)
            line = without_controls(str(told))
            middle = f"{line[:BEGINNING]} ... {line[-END:]}"
            sys.stderr.write(f"error: {line if len(line) <= len(middle) else middle}\n")
        sys.exit(2)


def _refused_file(error: BaseException) -> str | None:
    """What the system says of a file that it does not open, with the cure; None for any other error."""
    if not isinstance(error, OSError) or error.errno in (None, errno.ENOSPC, errno.EDQUOT):
        return None
    if error.filename is None and error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
        return None  # nobody's file; Arrow and polars tell the name of one in the message alone
    said = f"{error.filename}: {error.strerror}" if error.filename is not None else " ".join(str(error).split())
    return f"{said}; {CURES.get(error.errno, 'correct that, then run again')}"


def _out_of_memory(error: BaseException) -> str | None:
    """What to do if memory could not be had, in torch's words or Python's; None for any other error."""
    words = r"can't allocate memory|[Cc]annot allocate memory|out of memory|can't start new thread|bad_alloc"
    if not isinstance(error, MemoryError) and not re.search(words, str(error)):
        return None
    cure = "end other programs, or lower encoder.batch_tokens and, of a training, encoder.chunk_size; then run again"
    return f"out of memory ({' '.join(str(error).split())[:200]}): {cure}"


def _full_disk(error: BaseException) -> str | None:
    """What to do if a write failed for want of space; some libraries say this only in their message."""
    # safetensors, polars and faiss quote the system; numpy's tofile only counts what it could write.
    words = r"No space left on device|os error 28|Disk quota exceeded|^\d+ requested and \d+ written$"
    if getattr(error, "errno", None) not in (errno.ENOSPC, errno.EDQUOT) and not re.search(words, str(error)):
        return None
    filename = getattr(error, "filename", None)
    where = f" while writing {filename}" if filename else ""
    return (
        f"no space left on the disk{where} ({shutil.disk_usage('.').free // 2**20} MiB free); existing artifacts are "
        "untouched: free space (`dvc gc -w` drops cached versions no longer in use), then run again"
    )
