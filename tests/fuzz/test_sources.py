"""Every source, of files that are nearly right: what is prepared is what is read, or a line says what is wrong."""

import gzip
import json
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnn_encoder.base.errors import UserError
from gnn_encoder.data.insuranceqa import open_insuranceqa
from gnn_encoder.data.prepare import prepare, read_texts
from gnn_encoder.data.rows import Source
from gnn_encoder.data.sources import leave_out_empty, open_source
from gnn_encoder.evaluation.runs_and_qrels import by_qrels, judge_runs
from gnn_encoder.pipeline.params import Data

from ..conftest import TINY
from .mangling import CORPUS, RUN, folders, lines, mangled, told, write
from .tables import tables

Check = Callable[[Callable[[], Source], Data, Path], None]


def of_folder(name: str, *beginnings: str) -> dict[str, bytes]:
    files = [path for path in sorted((TINY / name).iterdir()) if path.name.startswith(beginnings or ("",))]
    return {path.name: path.read_bytes() for path in files}


QUERIES = lines(*({"_id": f"q{i}", "text": f"which tree is number {i}?"} for i in range(1, 7)))
QRELS = lines("query-id\tcorpus-id\tscore", *(f"q{i}\tp{1 + i % 4}\t1" for i in range(1, 7)))
BEIR = {"corpus.jsonl": CORPUS, "queries.jsonl": QUERIES, "qrels/train.tsv": QRELS, "qrels/test.tsv": QRELS}
LOGGED = [
    ("what is yew?", "p2", 3, "2024-05-31T12:00:00"),
    ("ash", "p1", 1, "2024-06-01"),
    ("oars", "p4", 2, "2024-06-02T00:00:00Z"),
    ("oak tree", "p1", 1, "2024-06-03T00:00:00+02:00"),
    ("???", "p1", 1, "2024-06-04"),
    ("bud", "p9", 4, "2024-06-05"),
]
TABLE = lines("query\tpid\tcount\ttime", *("\t".join(map(str, row)) for row in LOGGED))
OBJECTS = lines(*({"query": q, "pid": p, "count": c, "time": 17e8 + c} for q, p, c, _ in LOGGED))
SOURCES: dict[str, tuple[dict[str, Any], dict[str, bytes]]] = {
    "beir": ({"source": "beir"}, BEIR),
    "msmarco": ({"source": "msmarco"}, of_folder("msmarco")),
    "trec dl": ({"source": "msmarco", "test": "trec_dl_2019"}, of_folder("msmarco")),
    "rocketqa": ({"source": "msmarco"}, of_folder("rocketqa")),
    "dpr": ({"source": "dpr", "name": "nq"}, of_folder("dpr", "psgs", "nq", "biencoder-nq")),
    "trivia": ({"source": "dpr", "name": "trivia"}, of_folder("dpr", "psgs", "trivia", "biencoder-trivia")),
    "log.tsv": ({"source": "log", "split": "time"}, {"corpus.jsonl": CORPUS, "log.tsv": TABLE}),
    "log.jsonl": ({"source": "log", "test_fraction": 0.4}, {"corpus.jsonl": CORPUS, "log.jsonl": OBJECTS}),
}


def chosen(path: str | None, **options: Any) -> Data:
    return Data.model_validate({"path": path, "train_queries": None, "dev_fraction": 0.3} | options)


@pytest.fixture(scope="module")
def check() -> Check:
    """Prepares a source: it is refused, or nothing of it is lost."""

    def checked(open_it: Callable[[], Source], data: Data, folder: Path) -> None:
        source = told(open_it)
        if isinstance(source, UserError):
            return
        if isinstance(told(lambda: prepare(data, source, folder, seed=1)), UserError):
            return
        statistics = json.loads((folder / "statistics.json").read_text())
        assert statistics["passages"]["passages"] == sum(1 for _ in source.passages())
        for split, read in source.judgements.items():
            cut = split == "train" and "dev" not in source.queries
            names = ("train", "dev") if cut else (split,)
            kept = pl.concat(pl.read_parquet(folder / "qrels" / f"{name}.parquet") for name in names).rows()
            rows = {row[:3] for _, row in read()}
            positive = {qid for qid, _, grade in rows if grade > 0}
            assert sorted(kept) == sorted(row for row in rows if row[0] in positive)

    return checked


@pytest.mark.parametrize("name", SOURCES)
@given(data=st.data())
def test_folders(name: str, data: st.DataObject, check: Check) -> None:
    options, files = SOURCES[name]
    with TemporaryDirectory() as place:
        write(Path(place), data.draw(folders(files)))
        experiment = chosen(place, **options)
        check(lambda: open_source(experiment), experiment, Path(place) / "out")


@given(data=st.data())
def test_insuranceqa(data: st.DataObject, check: Check) -> None:
    asked = {str(i): {"en": f"question {i}", "answers": [str(i % 4)]} for i in range(4)}
    files = {name: asked for name in ("train", "valid", "test")} | {"answers": {str(i): {"en": "a"} for i in range(4)}}
    with TemporaryDirectory() as place:
        for name, value in files.items():
            content = data.draw(mangled(json.dumps(value).encode()))
            Path(place, f"{name}.json.gz").write_bytes(gzip.compress(content, mtime=0))
        experiment = chosen(None, source="insuranceqa")
        check(lambda: leave_out_empty(open_insuranceqa(Path(place))), experiment, Path(place) / "out")


@given(log=tables("query", "pid", "count", "time"), texts=tables("text"), qrels=tables("qid", "pid", "grade"))
def test_parquet(log: bytes, texts: bytes, qrels: bytes, check: Check) -> None:
    with TemporaryDirectory() as place, chdir(place):
        files = {"corpus.jsonl": CORPUS, "log.parquet": log, "own.parquet": texts, "qrels.parquet": qrels, "run": RUN}
        write(Path(), files)
        told(lambda: list(read_texts(Path("own.parquet"))))
        told(lambda: judge_runs([Path("run")], by_qrels(Path("qrels.parquet")), ["RR@10"]))
        experiment = chosen(".", source="log", split="time")
        check(lambda: open_source(experiment), experiment, Path("out"))
