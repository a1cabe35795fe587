"""Random sequences of commands against a dictionary and NumPy."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from gnn_encoder.growing import commands
from gnn_encoder.growing.compact import compact
from gnn_encoder.growing.search import GrownIndex
from gnn_encoder.index.build import PID_TABLE, PIDS
from gnn_encoder.index.search import PassageIndex, TableRows
from gnn_encoder.pipeline import project

from .small import SYSTEM, D, HashGrower, jsonl, make, vector

BUILT, STEPS, K = 600, 14, 10
KINDS = {"add": 0.3, "replace": 0.2, "delete": 0.2, "log": 0.1, "compact": 0.1, "compact all": 0.1}
FACTORIES = ("Flat", "IVF16,Flat", "HNSW16", "SQ8", "NSG16", "PCA8,IVF4,Flat", "PQ4x4")


class Oracle:
    """What should be there: the vectors by pid, in the order in which passages came."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.vectors = {pid: vector(text) for pid, text in texts.items()}

    def put(self, pid: str, text: str) -> None:
        self.vectors.pop(pid, None)
        self.vectors[pid] = vector(text)

    def search(self, query: np.ndarray, k: int) -> list[tuple[str, float]]:
        pids, matrix = list(self.vectors), np.stack(list(self.vectors.values()))
        scores = matrix @ query
        return [(pids[row], float(scores[row])) for row in np.argsort(-scores, kind="stable")[:k]]


def found(query: np.ndarray, k: int) -> list[tuple[str, float]]:
    base = PassageIndex.open(project.index(SYSTEM))
    grown = GrownIndex.open(base)
    assert grown is not None
    k = min(k, grown.passages)
    rows, scores = grown.search(query[None], k)
    live = rows[0] >= 0
    pids = grown.tables(TableRows(base.folder / PIDS, PID_TABLE), ["pid"]).take(rows[0][live])
    return [(row["pid"], float(score)) for row, score in zip(pids, scores[0][live], strict=True)]


def step(random: np.random.Generator, oracle: Oracle, number: int, folder: Path) -> str:
    """One command, drawn at random, and the same to the oracle."""
    pids = list(oracle.vectors)
    kind = random.choice(
        ["add", "replace", "delete", "log", "compact", "compact all"], p=[0.3, 0.2, 0.2, 0.1, 0.1, 0.1]
    )
    some = random.choice(pids, size=min(len(pids) - K, int(random.integers(1, 60))), replace=False).tolist()
    if kind in ("add", "replace"):
        fresh = [f"new-{number}-{i}" for i in range(len(some))]
        texts = {pid: f"text {number} of {pid}" for pid in (some if kind == "replace" else fresh)}
        commands.add(SYSTEM, jsonl(folder / "add.jsonl", texts))
        for pid, text in texts.items():
            oracle.put(pid, text)
    elif kind == "delete":
        commands.delete(SYSTEM, some)
        for pid in some:
            del oracle.vectors[pid]
    elif kind == "log":
        (folder / "log.tsv").write_text(f"query {number}\t{some[0]}\nquery {number}\t{some[-1]}\n")
        commands.log(SYSTEM, folder / "log.tsv")
        texts = {pid: text for pid, text in current_texts(sorted({some[0], some[-1]})).items()}
        for pid, text in texts.items():
            oracle.put(pid, text + "!")
    else:
        compact(SYSTEM, whole=kind == "compact all")
    return str(kind)


def current_texts(pids: list[str]) -> dict[str, str]:
    overlay = commands.open_overlay(SYSTEM)
    rows = overlay.find(pl.Series(pids))
    return dict(zip(rows["pid"], overlay.texts(rows["row"].to_numpy())["text"], strict=True))


@pytest.mark.parametrize("factory", FACTORIES)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_search_finds_what_there_is(factory: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flat finds exactly what NumPy finds; other types find k distinct passages, and none that was deleted."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(commands, "open_grower", HashGrower)
    monkeypatch.setattr(commands, "AT_A_TIME", 16)  # several parts
    texts = {f"p{i}": f"text of p{i}" for i in range(BUILT)}
    make(tmp_path, texts, factory)
    oracle, random = Oracle(texts), np.random.default_rng(seed)
    commands.delete(SYSTEM, ["p0"])
    del oracle.vectors["p0"]
    done = []
    for number in range(STEPS):
        done.append(step(random, oracle, number, tmp_path))
        for query in random.normal(size=(3, D)).astype(np.float32):
            answer = found(query, K)
            pids = [pid for pid, _ in answer]
            assert len(set(pids)) == K and set(pids) <= oracle.vectors.keys(), done
            if factory == "Flat":
                expected = oracle.search(query, K)
                assert pids == [pid for pid, _ in expected], done
                np.testing.assert_allclose([s for _, s in answer], [s for _, s in expected], rtol=1e-5)
    assert {"add", "replace", "delete"} <= set(done)


@pytest.mark.parametrize("factory", FACTORIES)
def test_all_that_is_left_is_found(factory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More passages are wanted than there are, since nearly all were deleted, and at last all of them."""
    monkeypatch.chdir(tmp_path)
    texts = {f"p{i}": f"text of p{i}" for i in range(BUILT)}
    make(tmp_path, texts, factory)
    commands.delete(SYSTEM, list(texts)[5:])
    assert sorted(pid for pid, _ in found(vector("query"), 50)) == ["p0", "p1", "p2", "p3", "p4"]
    outcome = commands.delete(SYSTEM, list(texts)[:5])
    grown = GrownIndex.open(PassageIndex.open(project.index(SYSTEM)))
    assert outcome.passages == 0 and grown is not None
    assert grown.search(vector("query")[None], 3)[0].tolist() == [[-1, -1, -1]]
