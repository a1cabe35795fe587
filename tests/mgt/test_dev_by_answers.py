"""The watched dev queries where answers judge: what M_de found is relevant if it holds one."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gnn_encoder.core.records import PASSAGES, QRELS, QUERIES
from gnn_encoder.core.storage.tables import write_table
from gnn_encoder.mgt import phases
from gnn_encoder.pipeline import project

TEXTS = ["a hot oven", "a pan", "salt and a pan", "an oven", "yeast", "the oven and salt"]
FOUND = np.array([[3, 1], [2, 4]])  # M_de's top two of q0 and of q2, which BM25 found positives for


@pytest.fixture(autouse=True)
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pids = [f"p{i}" for i in range(len(TEXTS))]
    write_table(project.PASSAGES, PASSAGES, [pa.table([pids, [""] * len(TEXTS), TEXTS], schema=PASSAGES)])
    write_table(project.POSITIVES, QRELS, [pa.table([["q0", "q2"], ["p0", "p5"], [1, 1]], schema=QRELS)])
    monkeypatch.setattr(phases, "embed_queries", lambda encoder, tokens, size, rows: np.zeros((len(rows), 4)))
    monkeypatch.setattr(phases, "open_queries", lambda table, encoder: None)
    monkeypatch.setattr(phases, "check_shape", lambda folder, shape: None)
    monkeypatch.setattr(phases, "exact_top_k", lambda folder, queries, k, name: (FOUND[:, :k], None))


def sample(answers: list[list[str]], small: int = 5) -> Any:
    queries = pa.table([["q0", "q1", "q2"], ["?"] * 3, answers], schema=QUERIES)
    write_table(project.queries("dev"), QUERIES, [queries])
    params: Any = SimpleNamespace(
        seed=0,
        dev=SimpleNamespace(queries=9, depth=2),
        encoder=SimpleNamespace(batch_tokens=8),
        evaluate=SimpleNamespace(answers="string"),
    )
    encoder: Any = SimpleNamespace(eval=lambda: None, dimension=4)
    return phases.sample_dev("dual_encoder", params, encoder, whole=small, queries=params.dev.queries)


def relevant(found: Any) -> dict[int, list[int]]:
    return {int(row): found.pool[mask].tolist() for row, mask in zip(found.queries, found.relevant, strict=True)}


def test_by_answers() -> None:
    found = sample([["Oven"], ["gas"], ["salt"]])
    assert found.pool.tolist() == [0, 1, 2, 3, 4, 5]
    # q0: p5 holds an oven too, but was found for nobody; q2: p2 was found for it.
    assert relevant(found) == {0: [0, 3], 2: [2, 5]}


def test_a_small_corpus_is_ranked_whole() -> None:
    found = sample([["hot"], ["gas"], ["pan"]], small=6)
    assert found.pool.tolist() == [0, 1, 2, 3, 4, 5]
    # q0: what M_de found for it holds nothing hot; q2: of its two passages p2 holds a pan, and p1 was not found.
    assert relevant(found) == {0: [0], 2: [2, 5]}


def test_by_qrels() -> None:
    assert relevant(sample([[], [], []])) == {0: [0], 2: [5]}
