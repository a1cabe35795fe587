"""What becomes of copies of passages, and of queries that are passages."""

from pathlib import Path

import numpy as np
import polars as pl

from gnn_encoder.base.judgements import Identical
from gnn_encoder.base.tables import CANDIDATES, COPIES, OWN, write_table
from gnn_encoder.train.examples import to_examples

from ..texts import pairs

# Passages 1, 4 and 7 have one text, 2 and 3 another; query 1 is passage 5 itself, and query 2 passage 3, so 2 as well.
OWN_PAIRS = pairs((1, 5), (2, 2), (2, 3))
SAME = Identical(copies=np.array([3, 4, 7]), firsts=np.array([2, 1, 1]), own=OWN_PAIRS)


def candidates(*lists: list[int]) -> pl.DataFrame:
    rows = [(query, passage, rank, 1.0) for query, one in enumerate(lists) for rank, passage in enumerate(one)]
    return pl.DataFrame(rows, schema=pl.DataFrame(CANDIDATES.empty_table()).schema, orient="row")


def test_the_first_of_copies_and_all_of_them() -> None:
    assert SAME.first(np.array([[0, 1, 2], [3, 4, 7]])).tolist() == [[0, 1, 2], [2, 1, 1]]
    passages, place = SAME.with_copies(np.array([2, 1, 6]))
    found = sorted(zip(place.tolist(), passages.tolist(), strict=True))
    assert found == [(0, 2), (0, 3), (1, 1), (1, 4), (1, 7), (2, 6)]


def test_candidates_are_texts_of_which_none_is_relevant_or_the_query() -> None:
    labels = pairs((0, 4), (2, 0))
    found = SAME.distinct(candidates([1, 0, 4, 3, 2, 7], [5, 7, 4, 6], [2, 0, 3, 6]), labels)
    lists = [found.filter(pl.col("query") == query).select("passage", "rank").rows() for query in range(3)]
    assert lists == [[(0, 0), (4, 1), (3, 2)], [(7, 0), (6, 1)], [(0, 0), (6, 1)]]
    assert found.schema == candidates().schema
    plain = candidates([1, 4], [5])
    assert Identical().distinct(plain, labels) is plain


def test_a_ranking_goes_without_the_query_itself() -> None:
    passages, scores = np.array([[3, 0, 1], [5, 2, 6], [3, 6, 2]]), np.array([[3, 2, 1]] * 3, dtype=np.float32)
    found, values = SAME.without_own(passages, scores, 2)
    assert found.tolist() == [[3, 0], [2, 6], [6, -1]]
    assert values.tolist() == [[3, 2], [2, 1], [2, -np.inf]]
    assert SAME.most == 2 and Identical().most == 0
    many = pl.DataFrame({"query": [0] * 5_000, "passage": range(5_000)})
    assert Identical(own=many).most == 1_000, "memory does not grow with the copies"
    assert SAME.of_queries(np.array([0, 2])).own.rows() == [(1, 2), (1, 3)]


def test_a_search_finds_as_many_as_without_the_query_itself(tmp_path: Path) -> None:
    def find(k: int) -> tuple[np.ndarray, np.ndarray]:
        return np.tile(np.arange(8)[::-1][:k], (3, 1)), np.tile(np.arange(8, dtype=np.float32)[::-1][:k], (3, 1))

    found, _ = SAME.search(find, 3, 8)
    assert found.tolist() == [[7, 6, 5], [7, 6, 4], [7, 6, 5]]
    assert SAME.search(find, 8, 8)[0][2].tolist() == [7, 6, 5, 4, 1, 0, -1, -1]
    write_table(tmp_path / "copies.parquet", COPIES, [COPIES.empty_table()])
    write_table(tmp_path / "mine.parquet", OWN, [OWN_PAIRS.to_arrow()])
    for own in ("mine", tmp_path / "mine.parquet"):
        assert Identical.read(tmp_path, own).own.equals(OWN_PAIRS)
    assert Identical.read(tmp_path, None).own.is_empty()


def test_copies_of_relevant_passages_are_no_negatives() -> None:
    lists = {"query": [0, 1], "positives": [[4], [2, 7]], "negatives": [[0], [0]]}
    examples = to_examples(pl.DataFrame(lists), 8, identical=SAME)
    spared = examples.is_spared(np.array([[0, 1, 2]]).T, np.arange(8))
    assert [np.flatnonzero(row).tolist() for row in spared] == [[1, 4, 7], [1, 2, 3, 4, 5, 7], [2, 3]]
    passages, place = examples.spared_unlabelled(np.array([1, 0]))
    found = sorted(zip(place.tolist(), passages.tolist(), strict=True))
    assert found == [(0, 1), (0, 3), (0, 4), (0, 5), (1, 1), (1, 7)]
    plain = to_examples(pl.DataFrame(lists), 8)
    assert [len(found) for found in plain.spared_unlabelled(np.array([0, 1]))] == [0, 0]


def test_many_copies_of_a_passage_cost_one_key() -> None:
    copies = 10_000
    same = Identical(copies=np.arange(1, copies), firsts=np.zeros(copies - 1, dtype=np.int64))
    lists = {"query": list(range(100)), "positives": [[query] for query in range(100)], "negatives": [[0]] * 100}
    examples = to_examples(pl.DataFrame(lists), copies, identical=same)
    assert len(examples._spared) == 100
    assert examples.is_spared(np.array([[5]]), np.arange(copies)).all()
