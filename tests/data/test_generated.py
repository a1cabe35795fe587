"""Generated queries from a user's file: both forms, the order, what is lacking and what is wrong."""

import gzip
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.tables import QUERIES
from gnn_encoder.data import generated as module
from gnn_encoder.data.generated import write_given

from ..texts import write_passages

# 1 has three, one more than are asked for; 0 has one; the file is not in the passages' order.
LINES = [("1", "b one"), ("2", "c one"), ("1", "b two"), ("zz", "nobody's"), ("0", " a  one "), ("2", "c two")]
LINES += [("1", "b three"), ("0", "  ")]
EXPECTED = ["a one", "a one", "b one", "b two", "c one", "c two"]


@pytest.fixture
def passages(tmp_path: Path) -> Path:
    return write_passages(tmp_path / "passages.parquet", [""] * 3, ["a", "b", "c"])


def tsv(path: Path) -> None:
    path.write_text("".join(f"{pid}\t{text}\n" for pid, text in LINES))


def lists(path: Path) -> None:
    """As castorini/msmarco_v1_passage_doc2query-t5_expansions."""
    pids = dict.fromkeys(pid for pid, _ in LINES)
    rows = [{"id": pid, "predicted_queries": [text for own, text in LINES if own == pid]} for pid in pids]
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))


def single(path: Path) -> None:
    """One query a line, beside other keys."""
    path.write_text("".join(json.dumps({"_id": pid, "text": "?", "query": text}) + "\n" for pid, text in LINES))


@pytest.mark.parametrize(("name", "write"), [("q.tsv", tsv), ("q.jsonl.gz", lists), ("q.jsonl", single)])
@pytest.mark.parametrize("at_a_time", [1, 2, 100])
def test_the_first_of_each_passage(
    tmp_path: Path, passages: Path, monkeypatch: pytest.MonkeyPatch, name: str, write, at_a_time: int
) -> None:
    monkeypatch.setattr(module, "PASSAGES_AT_A_TIME", at_a_time)
    write(tmp_path / name)
    write_given(tmp_path / name, passages, tmp_path / "queries.parquet", tmp_path / "work", 2)
    table = pq.read_table(tmp_path / "queries.parquet")
    assert table.schema.equals(QUERIES)
    assert table.column("text").to_pylist() == EXPECTED
    assert table.column("qid").to_pylist() == ["0-0", "0-1", "1-0", "1-1", "2-0", "2-1"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("q.tsv", "0\ta\n2\tb\n", "q.tsv: 1 passages without a query, the first '1'; add lines for them"),
        ("q.tsv", "0\n", "line 1: 1 columns, not 2; write pid, query with a tab between them"),
        ("q.jsonl", '{"id": "0"}\n', "line 1, query: None is not a string"),
        ("q.jsonl", '{"id": 7, "query": "a"}\n', "line 1, id: 7 is not a string"),
        ("q.jsonl", '{"id": "0", "predicted_queries": "a"}\n', "predicted_queries: 'a' is not a list"),
        ("q.txt", "a\n", "must end in .tsv or .jsonl"),
    ],
)
def test_mistakes(tmp_path: Path, passages: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError) as error:
        write_given(tmp_path / name, passages, tmp_path / "queries.parquet", tmp_path / "work", 2)
    assert message in str(error.value)
