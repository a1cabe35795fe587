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
    **dict.fromkeys((errno.EACCES, errno.EPERM), "change its permissions or its owner"),
    errno.EROFS: "work on a disk that can be written",
    errno.ENOENT: "correct its name, or make it again",
    errno.EISDIR: "a file must be there",
    errno.ENOTDIR: "a folder must be there",
}
# What torch, safetensors, polars, faiss and numpy's tofile say, which give no errno.
NO_MEMORY = r"can't allocate memory|[Cc]annot allocate memory|out of memory|can't start new thread|bad_alloc"
NO_SPACE = r"No space left on device|os error 28|Disk quota exceeded|^\d+ requested and \d+ written$"
BEGINNING, END = 1_200, 500  # characters of an error that holds an id or a cell of thousands


class UserError(ValueError):
    """A mistake in data, parameters or files that the user can mend.

    The message is one line: the place (file, row, column or parameter), the value received, the rule, the cure. It is
    printed without a traceback.
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
        told = str(error) if isinstance(error, UserError) else told_of_machine(error)
        if told is None and not (mark and mark.exists()):  # else another process has told what made this one fail too
            raise
        with suppress(FileExistsError):
            if mark:
                mark.touch(exist_ok=False)
            line = without_controls(str(told))
            middle = f"{line[:BEGINNING]} ... {line[-END:]}"
            sys.stderr.write(f"error: {line if len(line) <= len(middle) else middle}\n")
        sys.exit(2)


def told_of_machine(error: Exception) -> str | None:
    """What is said of a file that does not open, a full disk or too little memory, with the cure; else None."""
    said, number, name = " ".join(str(error).split()), getattr(error, "errno", None), getattr(error, "filename", None)
    if number in (errno.ENOSPC, errno.EDQUOT) or re.search(NO_SPACE, str(error)):
        where = f" while writing {name}" if name else ""
        cure = "free space (`dvc gc -w` drops cached versions no longer in use), then run again"
        free = f"{shutil.disk_usage('.').free // 2**20} MiB free"
        return f"no space left on the disk{where} ({free}); existing artifacts are untouched: {cure}"
    if isinstance(error, MemoryError) or re.search(NO_MEMORY, str(error)):
        cure = "end other programs, or lower encoder.batch_tokens and, of a training, encoder.chunk_size"
        return f"out of memory ({said[:200]}): {cure}; then run again"
    # Arrow and polars tell a file's name in the message alone; other errors without one are nobody's file.
    if number is None or (name is None and number not in (errno.EACCES, errno.EPERM, errno.EROFS)):
        return None
    told = said if name is None else f"{name}: {os.strerror(number)}"
    return f"{told}; {CURES.get(number, 'correct that, then run again')}"
