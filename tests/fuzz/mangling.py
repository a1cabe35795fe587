"""Files that are nearly right: a right one, in which some tokens or bytes are others; tables of any types.

Tried are some examples, the same each time; with `--long` thousands of new ones.
"""

import gzip
import io
import os
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from gnn_encoder.base.errors import UserError, report_errors

from ..conftest import LONG

ONE = timedelta(seconds=20)  # in which an example must end: a reader must not hang
FIXED = {"deadline": ONE, "suppress_health_check": list(HealthCheck)}
# Which example of many is the smallest that fails is looked for in the long form alone: it takes minutes.
settings.register_profile(
    "short", max_examples=15, derandomize=True, database=None, phases=[Phase.explicit, Phase.generate], **FIXED
)
settings.register_profile("long", max_examples=4000, **FIXED)
# Where this folder alone is run, in one process, this is read before the option is.
settings.load_profile("long" if os.environ.get(LONG) or "--long" in sys.argv else "short")

TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\w.#-]+|.', re.DOTALL)
NASTY = [
    *(b"", b" ", b"\t", b"\n", b"\r", b"\r\n", b"\0", b"\xff", b"\xef\xbb\xbf", b"\x1b[2J", b"\x85", b"\xc2\x85"),
    *(b'"', b"'", b"\\", b'"""', b'"\\ud800"', "\u2028".encode(), "\ufeff".encode(), "é".encode(), "e\u0301".encode()),
    *(b"null", b"true", b"[]", b"{}", b'""', b'" "', b'"a b"', b"[[[[", b"}}", b"-", b":", b",", b"#", b"&a", b"*a"),
    *(b"0", b"1", b"-1", b"1.0", b"1.5", b"1e400", b"nan", b"NaN", b"-Infinity", b"9" * 25, b"9" * 5000, b"2147483648"),
    *(b"q1", b"p1", b"query", b"pid", b"!!python/name:os.system", b"2024-05-31", b"9999-99-99", b"0001-01-01"),
]
TYPES = [
    *(pa.list_(pa.float32()), pa.list_(pa.float16()), pa.list_(pa.float64(), 3), pa.large_list(pa.float32())),
    *(pa.list_(pa.int8()), pa.list_(pa.string()), pa.list_(pa.list_(pa.float32())), pa.list_(pa.null()), pa.binary()),
    *(pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string()), pa.null(), pa.bool_(), pa.date32()),
    *(pa.float32(), pa.int32(), pa.int64(), pa.uint64(), pa.decimal128(5, 2), pa.timestamp("us"), pa.timestamp("ns")),
]
VALUES = [1, "1", "a", "q1", [1.0, 2.0, 3.0], [1, 2, 3], ["a"], None, [], 0.5, True]
OTHERS = [None, [], [1.0], [None, 1.0, 2.0], "b", [float("nan")] * 3]
REFUSED = (pa.ArrowException, TypeError, ValueError, OverflowError)  # a type that does not hold the values


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


def parquet(**columns: pa.Array) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue().to_pybytes()


def npy(matrix: np.ndarray) -> bytes:
    np.save(file := io.BytesIO(), matrix)
    return file.getvalue()


@st.composite
def tables(draw: st.DrawFn, *names: str) -> bytes:
    """A Parquet file with some of these columns, or all, of any types."""
    rows, made = draw(st.sampled_from([0, 1, 4])), {}
    some = st.lists(st.sampled_from([*names, "other"]), max_size=4, unique=True)
    for name in names if draw(st.booleans()) else draw(some):
        kind, values = draw(st.sampled_from(TYPES)), [draw(st.sampled_from(VALUES))] * rows
        if rows and draw(st.booleans()):
            values[draw(st.integers(0, rows - 1))] = draw(st.sampled_from(OTHERS))
        try:
            made[name] = pa.array(values, kind)
        except REFUSED:
            made[name] = pa.nulls(rows, kind)
    return draw(flipped(parquet(**made))) if draw(st.booleans()) else parquet(**made)


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
