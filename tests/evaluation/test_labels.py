"""Tables of labels in each form, and their mistakes in one line."""

from datetime import date
from pathlib import Path

import polars as pl
import pytest

from gnn_encoder.core.errors import UserError
from gnn_encoder.evaluation.slices import read_labels


@pytest.mark.parametrize(("name", "separator"), [("labels.csv", ","), ("labels.tsv", "\t")])
def test_text(tmp_path: Path, name: str, separator: str) -> None:
    rows = [["kind", "qid", "words"], ["who", "q1", "3"], ["", "07", "12"]]
    (tmp_path / name).write_text("".join(separator.join(row) + "\n" for row in rows))
    found = read_labels(tmp_path / name)
    assert found.to_dict(as_series=False) == {"qid": ["q1", "07"], "kind": ["who", None], "words": ["3", "12"]}


def test_parquet(tmp_path: Path) -> None:
    columns = {"qid": [1, 2, 3], "long": [True, None, False], "words": [12, 3, 3]}
    table = pl.DataFrame(columns).with_columns(kind=pl.Series(["a", "b", "a"], dtype=pl.Categorical))
    table.write_parquet(tmp_path / "labels.parquet")
    assert read_labels(tmp_path / "labels.parquet").to_dict(as_series=False) == {
        **{"qid": ["1", "2", "3"], "long": ["yes", None, "no"], "words": [12, 3, 3]},
        "kind": ["a", "b", "a"],
    }


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"query": ["q"], "kind": ["a"]},
            ": its columns are query, kind; must be qid and at least one column of labels",
        ),
        ({"qid": ["q"]}, ": its columns are qid; must be"),
        ({"qid": ["p", None], "kind": ["a", "b"]}, ", column qid: row 1 is empty; name the query"),
        ({"qid": ["p", "q", "q"], "kind": ["a"] * 3}, ", column qid: 'q' is there twice; keep one row"),
        ({"qid": ["p"], "score": [0.5]}, ", column score: holds Float64; labels must be text, whole numbers or true"),
        ({"qid": ["p"], "day": [date(2020, 1, 1)]}, ", column day: holds Date; labels must be"),
        ({"qid": [*map(str, range(51))], "n": [*range(51)]}, ", column n: has 51 labels; must have at most 50: put it"),
    ],
)
def test_mistakes(tmp_path: Path, columns: dict[str, list[object]], message: str) -> None:
    path = tmp_path / "labels.parquet"
    pl.DataFrame(columns).write_parquet(path)
    with pytest.raises(UserError) as error:
        read_labels(path)
    assert str(error.value).startswith(f"{path}{message}") and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("labels.txt", "qid,kind\n", ": must end in .parquet, .csv or .tsv"),
        ("labels.csv", None, ": no such file; give a table of labels"),
        ("labels.csv", "", ": not readable (empty"),
        ("labels.csv", "qid,kind\nq,a,b\n", ": not readable ("),
        ("labels.parquet", "qid,kind\n", ": not readable ("),
    ],
)
def test_files_that_are_no_table(tmp_path: Path, name: str, content: str | None, message: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    with pytest.raises(UserError) as error:
        read_labels(path)
    assert str(error.value).startswith(f"{path}{message}") and "\n" not in str(error.value)
