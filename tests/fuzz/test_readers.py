"""Every reader, of files that are nearly right: no traceback, no hang, and all rows up to the fault that is told.

A right file has some other tokens or bytes, and tables any types. Tried are some examples, the same each time.

scripts/test.sh tests/fuzz --long         thousands of new examples of each format, some hours
"""

import gzip
import io
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import chdir, redirect_stderr
from datetime import timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gnn_encoder.base.errors import UserError, report_errors
from gnn_encoder.base.runs import read_run, read_scored_run
from gnn_encoder.data.formats import read_corpus
from gnn_encoder.data.prepare import open_source, prepare
from gnn_encoder.data.queries import read_generated, read_texts
from gnn_encoder.data.reading import QRELS_HEADER, read_judged
from gnn_encoder.evaluate.judge import judge_runs
from gnn_encoder.inform import inform
from gnn_encoder.pipeline import experiment
from gnn_encoder.pipeline.params import Data, load_params

from ..conftest import LONG
from ..data.conftest import data_of, write_files
from ..data.sources import CORPUS as TREES
from ..data.sources import SOURCES, Sample
from ..project import ROOT

ONE = timedelta(seconds=20)  # in which an example must end: a reader must not hang
FIXED = {"deadline": ONE, "suppress_health_check": list(HealthCheck)}
# Which example of many is the smallest that fails is looked for in the long form alone: it takes minutes.
settings.register_profile(
    "short", max_examples=8, derandomize=True, database=None, phases=[Phase.explicit, Phase.generate], **FIXED
)
settings.register_profile("long", max_examples=4000, **FIXED)
# Where this folder alone is run, in one process, this is read before the option is.
settings.load_profile("long" if os.environ.get(LONG) or "--long" in sys.argv else "short")

TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\w.#-]+|.', re.DOTALL)  # of a binary file mostly bytes
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
def folders(draw: st.DrawFn, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Mangle one or two files of a folder, and pack one, perhaps with damage."""
    made = dict(files)
    for name in draw(st.lists(st.sampled_from(sorted(files)), min_size=1, max_size=2)):
        made[name] = draw(mangled(made[name] or b" "))
    name, how = draw(st.sampled_from(sorted(files))), draw(st.integers(0, 9))
    if how < 2:
        packed = gzip.compress(made.pop(name), mtime=0)
        made[f"{name}.gz"] = draw(mangled(packed)) if how else packed
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
    return draw(mangled(parquet(**made))) if draw(st.booleans()) else parquet(**made)


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


# --- readers ----------------------------------------------------------------------------------------------------------

HEADERS = (QRELS_HEADER, QRELS_HEADER[:2])
RUN = b"q1 Q0 p1 1 2.5 mine\nq1 Q0 p2 2 1e-3 mine\nq2\tQ0\tp1\t1\t-1\tmine\n"
CORPUS = TREES.encode()
PREDICTED = b'{"id": "p1", "predicted_queries": ["what", "is"]}\n{"_id": "p2", "query": "yew"}\n'
FILES: dict[str, tuple[bytes, Callable[[Path], Iterable[Any]]]] = {
    "qrels.tsv": (b"query-id\tcorpus-id\tscore\nq1\tp1\t1\nq2\tp2\t0\nq3\tp1\t1.0\n", read_judged),
    "qrels.txt": (b"q1 0 p1 1\nq1\t0\tp2\t0\n\nq2 0 p1 1.0\n", read_judged),
    "corpus.jsonl": (CORPUS, read_corpus),
    "given.tsv": (b"p1\twhat is ash\np1\tis ash hard\np2\tyew\n", read_generated),
    "given.jsonl": (PREDICTED, read_generated),
    "own.txt": (b"what is ash\nyew  tree\n", read_texts),
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
@given(data=st.data())
def test_sources(source: Sample, data: st.DataObject) -> None:
    with TemporaryDirectory() as place:
        write_files(Path(place), data.draw(folders({name: text.encode() for name, text in source.files.items()})))
        check(data_of(path=place, **source.keys), Path(place) / "out")


def check(data: Data, folder: Path) -> None:
    """Prepare a source: it is refused, or each judgement of a query with a positive is kept, or counted as left out."""
    source = told(lambda: open_source(data))
    if isinstance(source, UserError) or told(lambda: prepare(data, source, folder, seed=1)) is not None:
        return
    found = json.loads((folder / "statistics.json").read_text())
    left_out = Counter(found.get("left_out_or_replaced", {}))
    assert found["passages"]["passages"] == sum(1 for _ in source.passages()) - left_out["empty_passages"]
    wrong = sum(number for name, number in left_out.items() if name.startswith("judgements_"))
    for split, read in source.judgements.items():
        names = ("train", "dev") if split == "train" and "dev" not in source.queries else (split,)
        kept = pl.concat(pl.read_parquet(folder / "qrels" / f"{name}.parquet") for name in names).rows()
        rows = {row[:3] for _, row in read()}
        positive = {qid for qid, _, grade in rows if grade > 0}
        assert set(kept) <= rows and (wrong or sorted(kept) == sorted(row for row in rows if row[0] in positive))


@pytest.mark.parametrize("name", FILES)
@given(data=st.data())
def test_lines(name: str, data: st.DataObject) -> None:
    """Rows in are rows out, up to the first fault, whose line is told."""
    right, read = FILES[name]
    content, out = data.draw(mangled(right)), list[Any]()
    with TemporaryDirectory() as place:
        write_files(Path(place), {name: content})
        done = told(lambda: [out.append(row) for row in read(Path(place, name))])
    if content.startswith(b"\x1f\x8b"):  # gzip, as the first bytes say
        assert isinstance(done, UserError)
        return
    number = re.search(r", line (\d+)", str(done)) if isinstance(done, UserError) else None
    before = content.split(b"\n")[: int(number[1]) - 1] if number else content.split(b"\n")
    plain = plain_lines(b"\n".join(before))
    headers = 0
    while read is read_judged and plain[headers : headers + 1] and plain[headers].decode().split() in HEADERS:
        headers += 1
    assert len(plain) - headers == len(out)


QRELS = b"q1 0 p1 1\nq2 0 p1 0\nq2 0 p2 1\n"


@given(content=mangled(RUN), qrels=mangled(QRELS), table=tables("qid", "pid", "grade"))
def test_runs(content: bytes, qrels: bytes, table: bytes) -> None:
    with TemporaryDirectory() as place, chdir(place):
        write_files(Path(), {"run": content, "qrels": qrels, "qrels.parquet": table, "right": RUN})
        told(lambda: judge_runs([Path("run")], Path("qrels"), ["RR@10", "nDCG@10", "R(rel=2)@5"]))
        told(lambda: judge_runs([Path("right")], Path("qrels.parquet"), ["RR@10"]))
        for read in (read_run, read_scored_run):
            found = told(partial(read, Path("run")))
            assert isinstance(found, UserError) or len(found) == len(plain_lines(content))


# --- experiments ------------------------------------------------------------------------------------------------------

PARAMS = (ROOT / "params.yaml").read_bytes()
SECTIONS = re.findall(r"^(\w+):", PARAMS.decode(), re.MULTILINE)
KEYS = [*SECTIONS, "mgt.beta", "data.path", "data.names.train"]


@given(
    key=st.sampled_from(KEYS), value=mangled(b"{alone: {steps: 1}, path: /x}"), config=mangled(b"mgt:\n  beta: 0.1\n")
)
def test_changes_of_params(key: str, value: bytes, config: bytes) -> None:
    """A change is made or refused, and a refused one changes nothing."""
    with TemporaryDirectory() as place, chdir(place):
        for argument in (f"{key}={value.decode(errors='surrogateescape')}", "config.yaml"):
            write_files(Path(), {"params.yaml": PARAMS, "config.yaml": config})
            done = told(partial(experiment.lay_over, [argument]))
            assert not isinstance(done, UserError) or Path("params.yaml").read_bytes() == PARAMS
            load_params()


# --- vectors ----------------------------------------------------------------------------------------------------------

VECTORS = np.eye(4, 3, dtype=np.float32) + 1
WITH_IDS = parquet(id=pa.array(["a", "b", "c", "d"]), vector=pa.array(VECTORS.tolist()))
KINDS = [VECTORS.astype(kind) for kind in ("f2", "f8", "i4", "U3", "c8", "?", ">f4", "O", "M8[s]")]
SHAPES = [VECTORS[0], VECTORS[:0], VECTORS[:, :0], VECTORS[None], VECTORS.T, VECTORS * np.nan]
ARRAYS = st.one_of(mangled(npy(VECTORS)), st.sampled_from([*KINDS, *SHAPES]).map(npy))
TABLES = st.one_of(tables("id", "vector"), mangled(WITH_IDS))


@given(array=ARRAYS, table=TABLES, qrels=mangled(b"0 0 1 1\n1 0 a 1\n2 0 2 1\n"))
def test_vectors(array: bytes, table: bytes, qrels: bytes) -> None:
    with TemporaryDirectory() as place, chdir(place):
        write_files(Path(), {"a.npy": array, "t.parquet": table, "right.npy": npy(VECTORS), "qrels": qrels})
        right, judged = Path("right.npy"), Path("qrels")
        for one in (Path("a.npy"), Path("t.parquet")):
            told(lambda one=one: next(inform(one, right, judged, right, judged, Path("out.npy"))))
            told(lambda one=one: next(inform(right, one, judged, one, judged, Path("out.npy"), one)))
