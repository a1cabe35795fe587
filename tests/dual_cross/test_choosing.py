"""Which generated queries are kept: by hand, and against the formula."""

from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

from gnn_encoder.base.tables import QUERIES
from gnn_encoder.dual_cross import generation as module
from gnn_encoder.dual_cross.generation import choose_queries, nearest
from gnn_encoder.text.corpus import embed_queries
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.text.tokens import TextTokens, open_tokens

from ..texts import text, write_queries
from ..train.conftest import tiny_encoder

GENERATED, PASSAGES = 4, 12


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WINDOW", 5)


@pytest.fixture
def encoder(tiny_model: Path) -> DualEncoder:
    return tiny_encoder(tiny_model).for_inference()


@pytest.fixture
def drafts(tmp_path: Path) -> Path:
    """Four queries for each of 12 passages; the second one of each repeats the first."""
    asked = [text(40 + i - (i % 4 == 1), 1 + (i - (i % 4 == 1)) * 5 % 9) for i in range(PASSAGES * GENERATED)]
    (tmp_path / "drafts").mkdir()
    return write_queries(tmp_path / "drafts" / "queries.parquet", asked)


@pytest.fixture
def tokens(drafts: Path, encoder: DualEncoder) -> TextTokens:
    return open_tokens(drafts, encoder.tokenizer, drafts.parent, 32)


@pytest.fixture
def embeddings() -> np.ndarray:
    return np.random.default_rng(2).normal(size=(PASSAGES, 32)).astype(np.float16)


def choose(
    encoder: DualEncoder, drafts: Path, tokens: TextTokens, embeddings: np.ndarray, folder: Path, keep: int = 2
) -> Path:
    target = folder / "queries.parquet"
    sizes = {"generated": GENERATED, "keep": keep, "batch_tokens": 64}
    choose_queries(encoder, drafts, tokens, embeddings, target, folder / "parts", **sizes)
    return target


def test_nearest_by_hand() -> None:
    cosines = np.array([[0.1, 0.9, 0.5, 0.9], [0.2, 0.2, 0.2, 0.2], [0.9, 0.9, 0.1, 0.8]], dtype=np.float32)
    repeated = np.zeros((3, 4), dtype=bool)
    repeated[2, 1] = True
    assert nearest(cosines, repeated, 4).tolist() == [[1, 3, 2, 0], [0, 1, 2, 3], [0, 3, 2, 1]]
    assert nearest(cosines, repeated, 2).tolist() == [[1, 3], [0, 1], [0, 3]]


@pytest.mark.parametrize("keep", [2, 4])
def test_the_table(
    encoder: DualEncoder, drafts: Path, tokens: TextTokens, embeddings: np.ndarray, tmp_path: Path, keep: int
) -> None:
    table = pq.read_table(choose(encoder, drafts, tokens, embeddings, tmp_path / "out", keep))
    assert table.schema.equals(QUERIES) and table.num_rows == PASSAGES * keep
    written = pl.read_parquet(drafts)
    vectors = embed_queries(encoder, tokens, 64).reshape(PASSAGES, GENERATED, 32)
    expected = []
    for passage in range(PASSAGES):
        cosine = [
            float(v @ embeddings[passage] / np.linalg.norm(v) / np.linalg.norm(embeddings[passage].astype(float)))
            for v in vectors[passage]
        ]
        order = [*sorted([0, 2, 3], key=lambda place: -cosine[place]), 1]  # 1 is a repetition
        expected += [written["qid"][passage * GENERATED + place] for place in order[:keep]]
    assert table.column("qid").to_pylist() == expected
    texts = dict(written.select("qid", "text").iter_rows())
    assert table.column("text").to_pylist() == [texts[qid] for qid in expected]
    assert len({qid for qid in expected if int(qid.lstrip("q")) % 4 == 0}) < PASSAGES or keep == 4
