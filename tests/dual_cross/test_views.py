"""Generated queries: the matrix of views, pair by pair; how good they are; and what training learns from them."""

from pathlib import Path
from unittest.mock import Mock

import numpy as np
import polars as pl
import pytest
import torch
import torch.nn.functional as F

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.matrix import Origin, open_matrix, read_manifest
from gnn_encoder.base.tables import EXAMPLES, read_table
from gnn_encoder.dual_cross.views import generated_examples, measure_queries, open_generated, rouge_l, view_inputs
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import load_params
from gnn_encoder.text import corpus
from gnn_encoder.text.corpus import encode_corpus
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.text.tokens import TextTokens
from gnn_encoder.train import dual_encoder as contrastive
from gnn_encoder.train.dual_encoder import Texts
from gnn_encoder.train.examples import Examples, TrainingBatch

from ..pipelines import Project
from ..project import call_stage
from ..texts import pairs, write_passages, write_queries
from ..train.conftest import tiny_encoder
from .conftest import PAIR_LENGTH, VIEWS

ORIGIN = Origin(model_fingerprint="model", input_fingerprint="input")


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "WINDOW", 7)  # not a multiple of the views


@pytest.fixture
def encoder(tiny_model: Path) -> DualEncoder:
    return tiny_encoder(tiny_model, shared=False, pair_length=PAIR_LENGTH).for_inference()


def one_by_one(encoder: DualEncoder, tables: Path) -> np.ndarray:
    """Each passage with each of its queries, by transformers. *Shape:* (12 * views, 32)."""
    queries = pl.read_parquet(tables / project.GENERATED_QUERIES)["text"].to_list()
    vectors = []
    for row, passage in enumerate(pl.read_parquet(tables / "passages.parquet")["text"]):
        for query in queries[row * VIEWS : (row + 1) * VIEWS]:
            options = {"truncation": "longest_first", "max_length": PAIR_LENGTH, "return_tensors": "pt"}
            with torch.no_grad():
                states = encoder.passage(**encoder.tokenizer(query, passage, **options)).last_hidden_state[0]
            vectors.append(F.normalize(states.float().mean(dim=0), dim=0).numpy())
    encoder.tokenizer._tokenizer.no_truncation()
    return np.stack(vectors)


def test_equals_each_by_itself(
    encoder: DualEncoder, generated: TextTokens, texts: Texts, tables: Path, tmp_path: Path
) -> None:
    inputs = view_inputs(encoder, generated, texts.passage_tokens, VIEWS)
    encode_corpus(encoder, inputs, tmp_path, dtype="float32", batch_tokens=64, origin=ORIGIN)
    found = open_matrix(tmp_path)
    np.testing.assert_allclose(found, one_by_one(encoder, tables), atol=2e-6)
    assert read_manifest(tmp_path).views == VIEWS and found.shape == (12 * VIEWS, 32)
    between = np.abs(found[0::VIEWS] - found[1::VIEWS]).max(axis=1)
    assert (between > 1e-3).all()  # views of one passage that cannot be told apart would prove nothing


@pytest.mark.usefixtures("generated")
def test_generated_queries_of_other_views(encoder: DualEncoder, tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tables)
    told = r"36 generated queries, expected 48: dual_cross.views = 4 for each of 12 passages; generate"
    with pytest.raises(UserError, match=told):
        open_generated(encoder, 12, 4)


@pytest.mark.parametrize(
    ("text", "reference", "expected"),
    [
        *(("The CAT, sat!", "the cat sat", 1.0), ("x", "y", 0.0), ("?", "", 0.0)),  # case and punctuation do not count
        *(("Größe", "große", 0.0), ("哪里", "哪里", 1.0)),
        *(("a b c d", "a x b d", 3 / 4), ("d c b a", "a b c d", 1 / 4), ("a b", "a b c d e f", 2 * (1 / 3) / (4 / 3))),
    ],
)
def test_rouge_l(text: str, reference: str, expected: float) -> None:
    assert rouge_l(text, reference) == pytest.approx(expected, abs=1e-12)


def test_measured_queries(tmp_path: Path) -> None:
    passages = write_passages(tmp_path / "passages.parquet", [""] * 3, ["a b. c", "never judged", "c d e f. g"])
    asked = write_queries(tmp_path / "dev.parquet", ["a b c d", "c d e f", "unjudged"])
    generated = ["a b", "a b c d", "no", "no", "x", "c d e y"]  # two views of three passages
    written = write_queries(tmp_path / "queries.parquet", generated)
    found = measure_queries(pairs((0, 0), (1, 2), (0, 2)), asked, passages, written, views=2)
    assert found["pairs"] == 3
    # Best of one: 2/3, 0, 0; of two: 1, 3/4, and "c d" of "c d e y" against "a b c d": 1/2.
    assert found["rouge_l"] == pytest.approx([2 / 9, (1 + 3 / 4 + 1 / 2) / 3])
    assert found["rouge_l_first_sentence"] == pytest.approx((2 / 3 + 1 + 1 / 2) / 3)


# --- what the two stages of training learn from, in the tiny experiment


def test_generated_examples_by_hand() -> None:
    examples = generated_examples(4, 3, None, 0)
    assert examples.queries.tolist() == list(range(12))
    assert examples.positives.values.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    # Queries 3, 4 and 5 are of passage 1: whichever of them is asked, that passage is no negative.
    known = examples.is_spared(np.array([[3, 4, 5, 6]]).T, np.array([1, 2]))
    assert known.tolist() == [[True, False], [True, False], [True, False], [False, True]]
    assert np.diff(examples.negatives.offsets).tolist() == [0] * 12


def test_what_pretraining_sees(stages: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    stages.set_params(dual_cross__queries=50)
    monkeypatch.chdir(stages.folder)
    found = list[TrainingBatch]()
    monkeypatch.setattr(contrastive, "contrastive_step", lambda texts, batch, *rest, **more: found.append(batch) or 0.0)
    call_stage("pretrain_dual_cross")
    assert len(found) == load_params().dual_cross.pretrain.steps
    for batch in found:
        assert batch.passages.tolist() == (batch.queries // 2).tolist()  # the query's own passage, no hard negative
    assert len({row for batch in found for row in batch.queries.tolist()}) == 50


def test_hard_negatives(stages: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(stages.folder)
    seen, nothing = list[Examples](), dict.fromkeys(("DualEncoder", "open_texts", "open_views"), Mock())
    nothing["train_dual_encoder"] = lambda texts, examples, *rest, **more: seen.append(examples)
    for kind, file in (("denoised", project.EXAMPLES), ("bm25", project.BM25_EXAMPLES)):
        stages.set_params(dual_cross__examples=kind)
        call_stage("train_dual_cross", "dual_cross", **nothing)
        table = read_table(file, EXAMPLES).drop_nulls("negatives")
        assert seen[-1].negatives.values.tolist() == table["negatives"].explode(empty_as_null=False).to_list()
    assert len(seen[0].negatives.values) != len(seen[1].negatives.values)
