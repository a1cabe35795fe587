"""Every reader, of files that are nearly right: no traceback, no hang, and all rows up to the fault that is told.

scripts/test.sh tests/fuzz --long         thousands of new examples of each format, some hours
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import chdir
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.runs import read_run, read_scored_run
from gnn_encoder.data.formats import read_corpus
from gnn_encoder.data.prepare import open_source, prepare
from gnn_encoder.data.queries import read_generated, read_texts
from gnn_encoder.data.reading import QRELS_HEADER, read_judged
from gnn_encoder.evaluate.judge import judge_runs
from gnn_encoder.inform import inform
from gnn_encoder.pipeline import experiment
from gnn_encoder.pipeline.params import Data, load_params

from ..data import sources as data_sources
from ..data.conftest import data_of, write_files
from ..project import ROOT
from .mangling import flipped, folders, mangled, npy, parquet, plain_lines, tables, told

SOURCES = {
    name: (one.keys, {file: text.encode() for file, text in one.files.items()})
    for name, one in data_sources.SOURCES.items()
}
HEADERS = (QRELS_HEADER, QRELS_HEADER[:2])
RUN = b"q1 Q0 p1 1 2.5 mine\nq1 Q0 p2 2 1e-3 mine\nq2\tQ0\tp1\t1\t-1\tmine\n"
CORPUS = data_sources.CORPUS.encode()
PREDICTED = b'{"id": "p1", "predicted_queries": ["what", "is"]}\n{"_id": "p2", "query": "yew"}\n'
FILES: dict[str, tuple[bytes, Callable[[Path], Iterable[Any]]]] = {
    "qrels.tsv": (b"query-id\tcorpus-id\tscore\nq1\tp1\t1\nq2\tp2\t0\nq3\tp1\t1.0\n", read_judged),
    "qrels.txt": (b"q1 0 p1 1\nq1\t0\tp2\t0\n\nq2 0 p1 1.0\n", read_judged),
    "corpus.jsonl": (CORPUS, read_corpus),
    "given.tsv": (b"p1\twhat is ash\np1\tis ash hard\np2\tyew\n", read_generated),
    "given.jsonl": (PREDICTED, read_generated),
    "own.txt": (b"what is ash\nyew  tree\n", read_texts),
}


@pytest.mark.parametrize("name", SOURCES)
@given(data=st.data())
def test_sources(name: str, data: st.DataObject) -> None:
    options, files = SOURCES[name]
    with TemporaryDirectory() as place:
        write_files(Path(place), data.draw(folders(files)))
        check(data_of(path=place, **options), Path(place) / "out")


@given(log=tables("query", "pid", "count"), texts=tables("text"), qrels=tables("qid", "pid", "grade"))
def test_parquet(log: bytes, texts: bytes, qrels: bytes) -> None:
    with TemporaryDirectory() as place, chdir(place):
        files = {"corpus.jsonl": CORPUS, "log.parquet": log, "own.parquet": texts, "qrels.parquet": qrels, "run": RUN}
        write_files(Path(), files)
        told(lambda: list(read_texts(Path("own.parquet"))))
        told(lambda: judge_runs([Path("run")], Path("qrels.parquet"), ["RR@10"]))
        check(data_of(path=".", source="log"), Path("out"))


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
        error = told(lambda: out.extend(taken(read(Path(place, name)), out)))
    if content.startswith(b"\x1f\x8b"):  # gzip, as the first bytes say
        assert error is not None
        return
    number = re.search(r", line (\d+)", str(error)) if error else None
    before = content.split(b"\n")[: int(number[1]) - 1] if number else content.split(b"\n")
    plain = plain_lines(b"\n".join(before))
    headers = 0
    while read is read_judged and plain[headers : headers + 1] and plain[headers].decode().split() in HEADERS:
        headers += 1
    assert len(plain) - headers == len(out)


def taken(rows: Iterable[Any], out: list[Any]) -> Iterable[Any]:
    """Add the rows to `out`, also those before an error."""
    for row in rows:
        out.append(row)
    return ()


@given(content=mangled(RUN), qrels=mangled(b"q1 0 p1 1\nq2 0 p1 0\nq2 0 p2 1\n"))
def test_runs(content: bytes, qrels: bytes) -> None:
    with TemporaryDirectory() as place, chdir(place):
        write_files(Path(), {"run": content, "qrels": qrels})
        told(lambda: judge_runs([Path("run")], Path("qrels"), ["RR@10", "nDCG@10", "R(rel=2)@5"]))
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
ARRAYS = st.one_of(flipped(npy(VECTORS)), st.sampled_from([*KINDS, *SHAPES]).map(npy))
TABLES = st.one_of(tables("id", "vector"), flipped(WITH_IDS))


@given(array=ARRAYS, table=TABLES, qrels=mangled(b"0 0 1 1\n1 0 a 1\n2 0 2 1\n"))
def test_vectors(array: bytes, table: bytes, qrels: bytes) -> None:
    with TemporaryDirectory() as place, chdir(place):
        write_files(Path(), {"a.npy": array, "t.parquet": table, "right.npy": npy(VECTORS), "qrels": qrels})
        right, judged = Path("right.npy"), Path("qrels")
        for one in (Path("a.npy"), Path("t.parquet")):
            told(lambda one=one: next(inform(one, right, judged, right, judged, Path("out.npy"))))
            told(lambda one=one: next(inform(right, one, judged, one, judged, Path("out.npy"), one)))
