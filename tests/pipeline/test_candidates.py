"""Candidates in windows: the same as of one search, resumed where a run was killed, and read in parts."""

from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from gnn_encoder.base.judgements import Identical
from gnn_encoder.base.matrix import Matrix, Rows, Scores
from gnn_encoder.base.tables import CANDIDATES, candidates_table, iterate_candidates, write_table
from gnn_encoder.pipeline.params import Params
from gnn_encoder.train import candidates
from gnn_encoder.train.candidates import find_candidates, read_top
from gnn_encoder.train.cross_encoder import candidate_examples
from gnn_encoder.train.examples import examples_from_candidates, to_examples

QUERIES, PASSAGES, DEPTH = 23, 40, 6
PAIRS = pl.DataFrame({"query": [0, 3, 3, 7, 9, 22], "passage": [1, 0, 5, 2, 2, 3]}).cast(pl.Int32)
# Passage 4 is a copy of passage 2, and query 8 is passage 6 itself.
IDENTICAL = Identical(
    copies=np.array([4]), firsts=np.array([2]), own=pl.DataFrame({"query": [8], "passage": [6]}).cast(pl.Int32)
)


def find(queries: Matrix) -> tuple[Rows, Scores]:
    """The passages 0 to 39 from the one on that a query's only column names, DEPTH of them."""
    rows = (queries.astype(np.int64) + np.arange(DEPTH)) % PASSAGES
    return rows, (1 / (1 + np.arange(DEPTH, dtype=np.float32)))[None].repeat(len(rows), axis=0)


@pytest.fixture
def queries() -> Matrix:
    return np.random.default_rng(0).integers(0, 9, size=(QUERIES, 1)).astype(np.float32)


@pytest.fixture
def whole(queries: Matrix) -> pl.DataFrame:
    """All candidates at once."""
    return IDENTICAL.distinct(pl.DataFrame(candidates_table(*find(queries))), PAIRS)


def test_windows_are_one_search(
    queries: Matrix, whole: pl.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "WINDOW", 5)
    found = find_candidates(find, queries, tmp_path, IDENTICAL, PAIRS, label="search")
    assert pl.DataFrame(pa.concat_tables(found)).equals(whole)
    (tmp_path / "candidates-000003.parquet").unlink()
    asked: list[int] = []

    def again(part: Matrix) -> tuple[Rows, Scores]:
        asked.append(len(part))
        return find(part)

    found = find_candidates(again, queries, tmp_path, IDENTICAL, PAIRS, label="search")
    assert pl.DataFrame(pa.concat_tables(found)).equals(whole) and asked == [5]


@pytest.mark.parametrize(("first", "last"), [(0, None), (1, 4)])
def test_negatives_are_read_in_parts(
    whole: pl.DataFrame, tmp_path: Path, tiny_params: Params, first: int, last: int | None
) -> None:
    """The oracle: the EXAMPLES table that polars makes of the whole table."""
    settings = tiny_params.train_cross_encoder.model_copy(update={"range_min": first, "range_max": last})
    write_table(tmp_path / "c.parquet", CANDIDATES, whole.to_arrow().to_batches(max_chunksize=7))
    parts = list(iterate_candidates(tmp_path / "c.parquet"))
    found = candidate_examples(PAIRS, parts, settings, PASSAGES, IDENTICAL)
    chosen = whole.filter(pl.col("rank") >= first, pl.col("rank") < (last or DEPTH))
    expected = to_examples(examples_from_candidates(PAIRS, chosen), PASSAGES, identical=IDENTICAL)
    assert found.queries.tolist() == expected.queries.tolist() == [0, 3, 7, 9, 22]
    assert found.known.tolist() == expected.known.tolist()
    for ours, theirs in ((found.positives, expected.positives), (found.negatives, expected.negatives)):
        assert ours.values.tolist() == theirs.values.tolist() and ours.offsets.tolist() == theirs.offsets.tolist()


def test_only_the_first_ranks_are_read(whole: pl.DataFrame, tmp_path: Path) -> None:
    write_table(tmp_path / "c.parquet", CANDIDATES, [whole.to_arrow()])
    assert read_top(tmp_path / "c.parquet", 3).equals(whole.filter(pl.col("rank") < 3))
    assert read_top(tmp_path / "c.parquet", None).equals(whole)
