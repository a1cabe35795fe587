"""Anybody's runs and judgements: their forms, their mistakes, and `gnn-encoder evaluate`."""

import gzip
import json
from functools import partial
from pathlib import Path

import polars as pl
import pytest
from scipy import stats

from gnn_encoder.evaluate.judge import read_qrels

from ..project import call as cli
from ..project import refusal

RUN = "q1 Q0 a 0 1.0 t\nq1 Q0 b 0 2.0 t\nq2 Q0 c 0 5 t\nq2 Q0 a 0 5 t\nq2 Q0 b 0 4 t\n"
call = partial(cli, "evaluate")
OTHER = "q1 Q0 a 1 9 t\nq2 Q0 b 1 9 t\nq3 Q0 a 1 9 t\n"
QRELS = "q1 0 a 2\nq1 0 b 0\nq2 0 a 1\nq3 0 a 1\n"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.trec").write_text(RUN)
    (tmp_path / "other.trec.gz").write_bytes(gzip.compress(OTHER.encode()))
    (tmp_path / "qrels.txt").write_text(QRELS)
    return tmp_path


@pytest.mark.parametrize(
    "text",
    [
        QRELS,
        "q1\t0\ta\t2\r\nq1\t0\tb\t0\r\n\nq2\t0\ta\t1\nq3\t0\ta\t+1.0",
        "q1 iter a 2\nq1 x b 0\nq2 7 a 1\nq3 Q0 a 1",
        "query-id\tcorpus-id\tscore\nq1\ta\t2\nq1\tb\t0\nq2\ta\t1\nq3\ta\t1\n",
        "\ufeffq1\ta\t2\nq1\tb\t0\nq2\ta\t1\nq3\ta\t1\n",
        "q1 0 a 2\nq1 0 b 0\nq1 0 a 2\nq2 0 a 1\nq3 0 a 1\nq1 0 b 0\n",
    ],
)
def test_forms_of_qrels(tmp_path: Path, text: str) -> None:
    (tmp_path / "qrels.tsv").write_bytes(text.encode())
    (tmp_path / "qrels.gz").write_bytes(gzip.compress(text.encode()))
    for found in (read_qrels(tmp_path / "qrels.tsv"), read_qrels(tmp_path / "qrels.gz")):
        assert found.rows() == [("q1", "a", 2), ("q1", "b", 0), ("q2", "a", 1), ("q3", "a", 1)]
        assert found.schema == {"qid": pl.String, "pid": pl.String, "grade": pl.Int32}


def test_a_table_of_one_run(files: Path) -> None:
    code, out, err = call("run.trec", "qrels.txt", "-m", "RR@10", "-m", "MRR@1", "-m", "R(rel=2)@1000")
    assert code == 0 and err.splitlines() == [
        "warning: run.trec: 1 judged queries are not in it and count as 0",
        "warning: run.trec: has at most 3 passages a query, fewer than these measures count: RR@10, R(rel=2)@1000",
    ]
    assert out.splitlines() == [
        "| 3 judged queries |    run |",
        "| ---------------- | -----: |",
        f"| RR@10            | {(1 / 2 + 1 / 2 + 0) / 3:.4f} |",
        "| RR@1             | 0.0000 |",
        "| R(rel=2)@1000    | 0.3333 |",
    ]


def test_other_ids_of_passages_are_told(files: Path) -> None:
    (files / "run.trec").write_text(RUN.replace(" Q0 ", " Q0 doc-"))
    code, out, err = call("run.trec", "qrels.txt", "-m", "R@1")
    assert code == 0 and "0.0000" in out
    assert "warning: run.trec: none of its passages is judged for its query; are the ids those of the" in err


def test_two_runs_as_json(files: Path) -> None:
    code, out, _ = call("run.trec", "qrels.txt", "--against", "other.trec.gz", "--json", "-m", "RR@10", "-m", "R@1")
    found = json.loads(out)
    assert code == 0 and found["queries"] == 3
    assert found["missing"] == {"run.trec": 1, "other.trec.gz": 0}
    assert found["known"] == {"run.trec": 3, "other.trec.gz": 2}
    assert found["depths"] == {"run.trec": 3, "other.trec.gz": 1}
    assert found["measures"] == pytest.approx({"RR@10": 1 / 3, "R@1": 0.0})
    assert found["against"] == pytest.approx({"RR@10": 2 / 3, "R@1": 2 / 3})
    test = stats.ttest_rel([0.5, 0.5, 0.0], [1.0, 0.0, 1.0])
    tested = found["comparisons"]["RR@10"]
    assert tested["difference"] == pytest.approx(-1 / 3) and tested["p"] == pytest.approx(test.pvalue)
    ps = {name: one["p"] for name, one in found["comparisons"].items()}
    assert ps["R@1"] < ps["RR@10"] and found["comparisons"]["R@1"]["p_holm"] == pytest.approx(2 * ps["R@1"])
    _, table, _ = call("run.trec", "qrels.txt", "--against", "other.trec.gz", "-m", "RR@10")
    assert (
        f"| RR@10            | 0.3333 |  0.6667 |    -0.3333 | {tested['low']:+.4f} to {tested['high']:+.4f} |" in table
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.trec", "qrels.txt"], "none.trec: no such file"),
        (["run.trec", "none.parquet"], "none.parquet: no such file; correct its path"),
        (["run.trec", "."], ".: a folder, not a file; correct its path"),
        (["run.trec", "qrels.txt", "-m", "RRR@10"], "--measure has 'RRR@10'"),
        (["strange.trec", "qrels.txt"], "strange.trec: none of its queries is judged"),
        (["run.trec", "headed.txt"], "headed.txt, line 1: 'qid\\tpid' looks like a header"),
        (["run.trec", "twice.txt"], "twice.txt, line 3: query 'q' and passage 'a' were judged before, differently"),
    ],
)
def test_mistakes_in_one_line(files: Path, arguments: list[str], message: str) -> None:
    """What is wrong with a run: tests/base/test_runs.py."""
    (files / "strange.trec").write_text("x1 Q0 a 1 1 t\n")
    (files / "headed.txt").write_text("qid\tpid\nq1\ta\n")
    (files / "twice.txt").write_text("q 0 a 1\nq 0 b 1\nq 0 a 0\n")
    assert refusal("evaluate", *arguments).startswith(message)
