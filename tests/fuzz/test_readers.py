"""Every other reader, of files that are nearly right: no traceback, no hang, rows in = rows out + rows reported.

scripts/test.sh tests/fuzz --long         thousands of new examples of each format, some hours
"""

import json
import re
import shutil
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
from gnn_encoder.data.generated import read_generated, write_given
from gnn_encoder.data.lines import read_judged
from gnn_encoder.data.prepare import read_texts
from gnn_encoder.estimator.command import read
from gnn_encoder.evaluation.runs_and_qrels import by_qrels, judge_runs
from gnn_encoder.growing.reading import read_pids, write_passages
from gnn_encoder.pipeline import experiment
from gnn_encoder.pipeline.params import load_params
from gnn_encoder.text.encoder import DualEncoder

from ..project import ROOT
from .mangling import CORPUS, RUN, flipped, lines, mangled, odd, plain_lines, told, write
from .tables import npy, parquet, tables

MORE = re.compile(r" \((\d+) more(?: or above)?: ")
GIVEN = b"p1\twhat is ash\np1\tis ash hard\np2\tyew\n"
PREDICTED = lines({"id": "p1", "predicted_queries": ["what", "is"]}, {"_id": "p2", "query": "yew"})
HEADER = ["query-id", "corpus-id", "score"]
BEIR_QRELS = lines("query-id\tcorpus-id\tscore", "q1\tp1\t1", "q2\tp2\t0", "q3\tp1\t1.0")
FILES: dict[str, tuple[bytes, Callable[[Path], Iterable[Any]]]] = {
    "qrels.tsv": (BEIR_QRELS, read_judged),
    "qrels.txt": (b"q1 0 p1 1\nq1\t0\tp2\t0\n\nq2 0 p1 1.0\n", read_judged),
    "given.tsv": (GIVEN, read_generated),
    "given.jsonl": (PREDICTED, read_generated),
    "own.txt": (b"what is ash\nyew  tree\n", read_texts),
}


@pytest.mark.parametrize("name", FILES)
@given(data=st.data())
def test_lines(name: str, data: st.DataObject) -> None:
    """Rows in are rows out and rows that were reported."""
    right, read = FILES[name]
    content, out = data.draw(mangled(right)), list[Any]()
    with TemporaryDirectory() as place:
        write(Path(place), {name: content})
        error = told(lambda: out.extend(read(Path(place, name))))
        out = list(taken(read(Path(place, name))))
    if content.startswith((b"\xff\xfe", b"\xfe\xff", b"\x1f\x8b")):  # UTF-16 or gzip, as the first bytes say
        assert error is not None and not out
        return
    more = MORE.search(str(error))
    reported = 0 if error is None else 1 + int(more[1] if more else 0)
    plain = plain_lines(content)
    header = any(line.decode(errors="replace").split() in (HEADER, HEADER[:2]) for line in plain[: reported + 1])
    assert len(plain) - (header and read is read_judged) == len(out) + reported


def taken(rows: Iterable[Any]) -> Iterable[Any]:
    """The rows up to an error."""
    try:
        yield from rows
    except UserError:
        return


@given(content=mangled(RUN), qrels=mangled(b"q1 0 p1 1\nq2 0 p1 0\nq2 0 p2 1\n"))
def test_runs(content: bytes, qrels: bytes) -> None:
    with TemporaryDirectory() as place, chdir(place):
        write(Path(), {"run": content, "qrels": qrels})
        told(lambda: judge_runs([Path("run")], by_qrels(Path("qrels")), ["RR@10", "nDCG@10", "R(rel=2)@5"]))
        for read in (read_run, read_scored_run):
            found = told(partial(read, Path("run")))
            assert isinstance(found, UserError) or len(found) == len(plain_lines(content))


@given(content=mangled(CORPUS), pids=mangled(b"p1\np2\n\np3\n"))
def test_what_is_added_and_deleted(content: bytes, pids: bytes) -> None:
    with TemporaryDirectory() as place, chdir(place):
        write(Path(), {"more.jsonl": content, "pids": pids})
        done = told(lambda: write_passages(Path("more.jsonl"), Path("out.parquet")))
        assert isinstance(done, UserError) or len(pl.read_parquet("out.parquet")) == len(plain_lines(content))
        told(lambda: read_pids([], Path("pids")))


@given(content=mangled(GIVEN))
def test_generated_queries(content: bytes) -> None:
    with TemporaryDirectory() as place, chdir(place):
        passages = parquet(pid=pa.array(["p1", "p2"]), title=pa.array(["", ""]), text=pa.array(["a", "b"]))
        write(Path(), {"given.tsv": content, "passages": passages})
        paths = map(Path, ("given.tsv", "passages", "out.parquet", "work"))
        done = told(lambda: write_given(*paths, 3))
        assert isinstance(done, UserError) or len(pl.read_parquet("out.parquet")) == 6


# --- experiments ------------------------------------------------------------------------------------------------------

PARAMS = (ROOT / "params.yaml").read_bytes()
SECTIONS = re.findall(r"^(\w+):", PARAMS.decode(), re.MULTILINE)
KEYS = [*SECTIONS, "mgt.beta", "data.path", "data.names.train"]


@given(content=mangled(PARAMS))
def test_params(content: bytes) -> None:
    with TemporaryDirectory() as place:
        write(Path(place), {"params.yaml": content})
        told(lambda: load_params(Path(place, "params.yaml")))


@given(
    key=st.sampled_from(KEYS), value=mangled(b"{alone: {epochs: 1}, path: /x}"), config=mangled(b"mgt:\n  beta: 0.1\n")
)
def test_changes_of_params(key: str, value: bytes, config: bytes) -> None:
    """A change is made or refused, and a refused one changes nothing."""
    with TemporaryDirectory() as place, chdir(place):
        for argument in (f"{key}={value.decode(errors='surrogateescape')}", "config.yaml"):
            write(Path(), {"params.yaml": PARAMS, "config.yaml": config})
            done = told(partial(experiment.init, [argument]))
            assert not isinstance(done, UserError) or Path("params.yaml").read_bytes() == PARAMS
            load_params()


# --- a base model -----------------------------------------------------------------------------------------------------

MODEL = ROOT / "tests" / "tiny" / "model"
KINDS_OF_MODULES = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
STATED: dict[str, Any] = {
    "modules.json": [{"idx": 0, "path": path, "type": f"models.{kind}"} for path, kind in KINDS_OF_MODULES.items()],
    "1_Pooling/config.json": {"pooling_mode": "mean", "pooling_mode_mean_tokens": True, "include_prompt": True},
    "sentence_bert_config.json": {"max_seq_length": 40, "do_lower_case": True},
    "config_sentence_transformers.json": {"prompts": {"query": "q: "}, "default_prompt_name": "query"},
}
STATED |= {name: json.loads((MODEL / name).read_bytes()) for name in ("config.json", "tokenizer_config.json")}
OF_A_MODEL = {name: json.dumps(values).encode() for name, values in STATED.items()}


@pytest.mark.parametrize("name", OF_A_MODEL)
@given(data=st.data())
def test_a_base_model(name: str, data: st.DataObject) -> None:
    content = data.draw(st.one_of(mangled(OF_A_MODEL[name]), odd(STATED[name]).map(lines)))
    with TemporaryDirectory() as place:
        folder = shutil.copytree(MODEL, Path(place, "model"))
        write(folder, OF_A_MODEL | {name: content})
        changes = {"model": str(folder), "passage_length": 32}
        params = load_params(ROOT / "params.yaml").encoder.model_copy(update=changes)
        told(partial(DualEncoder.from_pretrained, params))


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
        write(Path(), {"a.npy": array, "t.parquet": table, "right.npy": npy(VECTORS), "qrels": qrels})
        right, judged = Path("right.npy"), Path("qrels")
        for one in (Path("a.npy"), Path("t.parquet")):
            told(partial(read, one, right, judged, right, judged, None))
            told(partial(read, right, one, judged, one, judged, one))
