"""The base model as it comes: what sentence-transformers makes of the same folder is the oracle."""

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from gnn_encoder.core.errors import UserError
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.models.params import Untouched
from gnn_encoder.models.untouched import untouched

from .test_dual_encoder import settings

ALL = Untouched(query_length=None, passage_length=None)
TEXTS = ["bread oven", "why?", "flour water yeast salt dough crust bake slow warm rise fold rest " * 9]
MEAN = {"word_embedding_dimension": 32, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}
CLS = {"word_embedding_dimension": 32, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}


@pytest.fixture
def model(tiny_model: Path, tmp_path: Path) -> Callable[..., Path]:
    """Makes a folder of sentence-transformers: the tiny model with its modules."""

    def make(pooling: dict[str, Any], *, normalize: bool, length: int | None) -> Path:
        folder = tmp_path / "model"
        shutil.copytree(tiny_model, folder)
        kinds = ["Transformer", "Pooling", *(["Normalize"] if normalize else [])]
        paths = ["", "1_Pooling", "2_Normalize"]
        modules = [
            {"idx": i, "name": str(i), "path": paths[i], "type": f"sentence_transformers.models.{kind}"}
            for i, kind in enumerate(kinds)
        ]
        (folder / "modules.json").write_text(json.dumps(modules))
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
        stated = {"max_seq_length": length, "do_lower_case": False}
        (folder / "sentence_bert_config.json").write_text(json.dumps(stated))
        return folder

    return make


@pytest.mark.parametrize(
    ("pooling", "normalize"),
    [(MEAN, True), (CLS, False), ({"embedding_dimension": 32, "pooling_mode": "cls"}, True)],
)
def test_equals_sentence_transformers(model: Callable[..., Path], pooling: dict[str, Any], normalize: bool) -> None:
    folder = model(pooling, normalize=normalize, length=40)
    # The parameters say the opposite of the folder, which wins; it says nothing of a dot product.
    other = {"pooling": "mean" if pooling is CLS or "pooling_mode" in pooling else "cls", "similarity": "dot"}
    found = untouched(settings(folder, **other), ALL)
    oracle = SentenceTransformer(str(folder), device="cpu")
    assert found.settings.query_length == found.settings.passage_length == oracle.max_seq_length == 40
    assert np.allclose(found.eval().embed_queries(TEXTS), oracle.encode(TEXTS), atol=1e-5)
    assert found.settings.similarity == ("cosine" if normalize else "dot")


def test_a_model_that_says_nothing_is_used_as_the_parameters_say(tiny_model: Path, tmp_path: Path) -> None:
    found = untouched(settings(tiny_model, pooling="cls", similarity="dot", shared=False), ALL)
    assert (found.settings.pooling, found.settings.similarity, found.settings.shared) == ("cls", "dot", True)
    assert found.settings.query_length == found.settings.passage_length == 128, "its positions"
    found.save(tmp_path / "saved")
    again = DualEncoder.load(tmp_path / "saved", precision="fp32")
    assert again.settings == found.settings
    assert torch.equal(again.query.embeddings.word_embeddings.weight, found.query.embeddings.word_embeddings.weight)


def test_lengths_are_capped_by_the_parameters_and_by_what_the_model_reads(model: Callable[..., Path]) -> None:
    folder = model(MEAN, normalize=True, length=40)
    found = untouched(settings(folder), Untouched(query_length=8, passage_length=64)).settings
    assert (found.query_length, found.passage_length) == (8, 40)
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 512}')
    assert untouched(settings(folder), ALL).settings.passage_length == 128, "more than it has positions for"


@pytest.mark.parametrize("unknown", [MEAN | {"pooling_mode_max_tokens": True}, {"pooling_mode": "lasttoken"}])
def test_a_pooling_that_is_none_of_ours_is_replaced_by_the_parameter_s(
    model: Callable[..., Path], unknown: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    assert untouched(settings(model(unknown, normalize=True, length=40)), ALL).settings.pooling == "mean"
    assert caplog.messages[-1] == (
        "the base model as it comes: pooling mean, similarity cosine, query length 40, passage length 40"
    )


def test_a_similarity_that_is_named(model: Callable[..., Path]) -> None:
    folder = model(MEAN, normalize=False, length=40)
    (folder / "config_sentence_transformers.json").write_text('{"similarity_fn_name": "dot"}')
    assert untouched(settings(folder, similarity="cosine"), ALL).settings.similarity == "dot"


def test_a_file_that_is_no_json(model: Callable[..., Path]) -> None:
    folder = model(MEAN, normalize=True, length=40)
    (folder / "modules.json").write_text("[")
    with pytest.raises(UserError, match=r"modules\.json: not valid JSON \(.*copy the file again"):
        untouched(settings(folder), ALL)
