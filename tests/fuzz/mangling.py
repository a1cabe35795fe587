"""Files that are nearly right: a right one, in which some tokens or bytes are others; and what a user sees of them."""

import gzip
import io
import re
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from gnn_encoder.base.errors import UserError, report_errors

TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\w.#-]+|.', re.DOTALL)
NASTY = [
    *(b"", b" ", b"\t", b"\n", b"\r", b"\r\n", b"\0", b"\xff", b"\xef\xbb\xbf", b"\x1b[2J", b"\x85", b"\xc2\x85"),
    *(b'"', b"'", b"\\", b'"""', b'"\\ud800"', "\u2028".encode(), "\ufeff".encode(), "é".encode(), "e\u0301".encode()),
    *(b"null", b"true", b"[]", b"{}", b'""', b'" "', b'"a b"', b"[[[[", b"}}", b"-", b":", b",", b"#", b"&a", b"*a"),
    *(b"0", b"1", b"-1", b"1.0", b"1.5", b"1e400", b"nan", b"NaN", b"-Infinity", b"9" * 25, b"9" * 5000, b"2147483648"),
    *(b"q1", b"p1", b"query", b"pid", b"!!python/name:os.system", b"2024-05-31", b"9999-99-99", b"0001-01-01"),
]


@st.composite
def mangled(draw: st.DrawFn, right: bytes) -> bytes:
    """Put nasty tokens, other tokens of the file or bytes into it, leave some out, or cut it off."""
    tokens = TOKEN.findall(right)
    other = st.one_of(st.sampled_from(NASTY), st.sampled_from(tokens), st.binary(max_size=4))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(tokens)))
        tokens[at : at + draw(st.integers(0, 2))] = draw(st.lists(other, max_size=2))
    content = b"".join(tokens)
    return content[: draw(st.integers(0, len(content)))] if draw(st.integers(0, 9)) == 9 else content


@st.composite
def flipped(draw: st.DrawFn, right: bytes) -> bytes:
    """Change some bytes of it, or cut it off."""
    content = bytearray(right)
    for at in draw(st.lists(st.integers(0, len(right) - 1), max_size=3)):
        content[at] = draw(st.integers(0, 255))
    return bytes(content[: draw(st.sampled_from([len(content), *range(0, len(content), 7)]))])


@st.composite
def folders(draw: st.DrawFn, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Mangle one or two files of a folder, and pack one, perhaps with damage."""
    made = dict(files)
    for name in draw(st.lists(st.sampled_from(sorted(files)), min_size=1, max_size=2)):
        made[name] = draw(mangled(made[name] or b" "))
    name, how = draw(st.sampled_from(sorted(files))), draw(st.integers(0, 9))
    if how < 2:
        packed = gzip.compress(made.pop(name), mtime=0)
        made[f"{name}.gz"] = draw(flipped(packed)) if how else packed
    return made


def write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def told(read: Callable[[], Any]) -> Any:
    """What is read, or the line that a user sees instead, as an error."""
    error = io.StringIO()
    try:
        with redirect_stderr(error), report_errors():
            return read()
    except SystemExit:
        line = error.getvalue()
        assert len(line.splitlines()) == 1 and not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", line), line
        assert len(line) < 2000, line
        return UserError(line)


def plain_lines(content: bytes) -> list[bytes]:
    """The lines of a text file that are not blank, without byte order marks, of which joined files have some inside."""
    return [line for line in (re.sub(rb"^(\xef\xbb\xbf)+", b"", one) for one in content.split(b"\n")) if line.strip()]


RUN = b"q1 Q0 p1 1 2.5 mine\nq1 Q0 p2 2 1e-3 mine\nq2\tQ0\tp1\t1\t-1\tmine\n"
