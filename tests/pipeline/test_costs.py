"""How long a model took: its own stage and all that it was made from, each once."""

import json
from pathlib import Path

import pytest

from gnn_encoder.pipeline.costs import training_seconds
from gnn_encoder.pipeline.stage import TIMES


@pytest.fixture(autouse=True)
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    TIMES.mkdir(parents=True)
    record("prepared", 1000.0, [])
    record("retriever", 50.0, ["data/prepared/passages.parquet"])
    record("embeddings-retriever", 90.0, ["data/prepared/passages.parquet", "data/retriever"])
    record("candidates", 10.0, ["data/retriever", "data/embeddings/retriever"])
    record("mgt-gnn_encoder", 7.0, ["data/candidates", "data/retriever"])


def record(name: str, seconds: float | None, inputs: list[str]) -> None:
    (TIMES / f"{name}.json").write_text(json.dumps({"seconds": seconds, "inputs": inputs}))


def test_everything_on_the_way_counts_once_and_the_prepared_tables_not() -> None:
    assert training_seconds(Path("data/retriever")) == 50.0
    assert training_seconds(Path("data/candidates")) == 150.0
    assert training_seconds(Path("data/mgt/gnn_encoder/encoder")) == 157.0


def test_unknown_times_make_no_sum() -> None:
    record("embeddings-retriever", None, ["data/retriever"])
    assert training_seconds(Path("data/candidates")) is None
    assert training_seconds(Path("data/retriever")) == 50.0
    assert training_seconds(Path("data/pulled_from_a_cache")) is None
    record("mgt-gnn_encoder", 7.0, ["data/pulled_from_a_cache"])
    assert training_seconds(Path("data/mgt/gnn_encoder")) is None
