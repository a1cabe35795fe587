"""Parquet and .npy files of any types, and damaged ones."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from .mangling import flipped

TYPES = [
    *(pa.list_(pa.float32()), pa.list_(pa.float16()), pa.list_(pa.float64(), 3), pa.large_list(pa.float32())),
    *(pa.list_(pa.int8()), pa.list_(pa.string()), pa.list_(pa.list_(pa.float32())), pa.list_(pa.null()), pa.binary()),
    *(pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string()), pa.null(), pa.bool_(), pa.date32()),
    *(pa.float32(), pa.int32(), pa.int64(), pa.uint64(), pa.decimal128(5, 2), pa.timestamp("us"), pa.timestamp("ns")),
]
VALUES = [1, "1", "a", "q1", [1.0, 2.0, 3.0], [1, 2, 3], ["a"], None, [], 0.5, True]
OTHERS = [None, [], [1.0], [None, 1.0, 2.0], "b", [float("nan")] * 3]
REFUSED = (pa.ArrowException, TypeError, ValueError, OverflowError)  # a type that does not hold the values


def parquet(**columns: pa.Array) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue().to_pybytes()


def npy(matrix: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, matrix)
    return file.getvalue()


@st.composite
def columns(draw: st.DrawFn, rows: int) -> pa.Array:
    kind, values = draw(st.sampled_from(TYPES)), [draw(st.sampled_from(VALUES))] * rows
    if rows and draw(st.booleans()):
        values[draw(st.integers(0, rows - 1))] = draw(st.sampled_from(OTHERS))
    try:
        return pa.array(values, kind)
    except REFUSED:
        return pa.nulls(rows, kind)


@st.composite
def tables(draw: st.DrawFn, *names: str) -> bytes:
    """A Parquet file with some of these columns, or all, of any types."""
    rows, every = draw(st.sampled_from([0, 1, 4])), draw(st.booleans())
    some = st.lists(st.sampled_from([*names, "other"]), max_size=4, unique=True)
    made = parquet(**{name: draw(columns(rows)) for name in (names if every else draw(some))})
    return draw(flipped(made)) if draw(st.booleans()) else made
