"""The papers' experiments in configs/ say what the papers say, and docs/papers.md what the default does otherwise."""

import re
from functools import reduce
from typing import Any

import pytest
import yaml

from gnn_encoder.pipeline.experiment import preview

from ..project import ROOT

# What is read off the papers.
EVERYWHERE = """
# GNN-encoder, sections 3.4 and 4.3.
encoder: {pooling: cls, similarity: dot, temperature: 1.0, model: nghuyong/ernie-2.0-base-en@main}
build_graph: {k: 25}
denoise: {positive_threshold: 0.9, negative_threshold: 0.1}
train_dual_encoder: {learning_rate: 2.0e-5, negatives: 1}
mgt: {layers: 2, gate: learned, edge_features: cross_encoder, masking: mgt, labels: false, softmax: batch, beta: 0.05}
mgt.alone: {steps: 0}
mgt.joint: {batch_size: 4096, encoder_learning_rate: 2.0e-6, gnn_learning_rate: 5.0e-5}  # 1024 on each of 4 GPUs
# PAIR, section 4.2 and Table 5.
pair: {positive_threshold: 0.9, negative_threshold: 0.1}
pair.pretrain: {alpha: 0.1, batch_size: 4096, learning_rate: 3.0e-5, negatives: 4}  # 512 on each of 8
pair.finetune: {alpha: 0.0}
# Dual-Cross-Encoder, section 4.4.
dual_cross: {views: 10}
dual_cross.pretrain: {batch_size: 2048, negatives: 0}  # 256 on each of 8
dual_cross.finetune: {batch_size: 256, negatives: 7, learning_rate: 5.0e-6}  # 32 on each of 8
"""
EACH = {
    "msmarco": """
data: {source: msmarco, test: dev}
train_dual_encoder: {batch_size: 4096}  # 2048 on each of 2
pair.finetune: {batch_size: 4096}  # 512 on each of 8
evaluate: {significance: RR@10}
""",
    "nq": """
data: {source: dpr, name: nq}
train_dual_encoder: {batch_size: 1024}  # 256 on each of 4
pair.finetune: {batch_size: 512}
evaluate: {measures: [Success@5, Success@20, Success@100]}
""",
}
# Passes over so many queries, or over the corpus with one query a passage: the sections of the same papers.
PASSES = {
    **{"train_retriever": 40, "train_cross_encoder": 2, "train_dual_encoder": 10, "mgt.joint": 5},
    **{"pair.pretrain": 10, "pair.finetune": 10, "dual_cross.pretrain": 10, "dual_cross.finetune": 20},
}
SIZES = {"msmarco": (500_927, 8_841_823), "nq": (58_880, 21_015_324)}  # training queries and passages


@pytest.mark.parametrize("name", EACH)
def test_hyper_parameters_are_the_papers(name: str) -> None:
    params = preview([str(ROOT / "configs" / f"{name}.yaml")], ROOT / "params.yaml")

    def value(key: str) -> Any:
        return reduce(getattr, key.split("."), params)

    said = [(section, keys) for text in (EVERYWHERE, EACH[name]) for section, keys in yaml.safe_load(text).items()]
    expected = {f"{section}.{key}": value for section, keys in said for key, value in keys.items()}
    assert {key: value(key) for key in expected} == expected
    queries, passages = SIZES[name]
    for section, passes in PASSES.items():
        found, size = value(section), passages if section == "dual_cross.pretrain" else queries
        fold = size / 20  # of MGT, which is split into batches of about the size
        parts = max(1, round(fold / found.batch_size))
        batch = fold / parts if section == "mgt.joint" else found.batch_size
        assert found.steps == pytest.approx(passes * size / batch, abs=1), section


def test_each_default_is_the_value_of_its_key() -> None:
    """In the table of docs/papers.md: what stands in code marks in the columns 'default here' and 'key'."""
    params, page = yaml.safe_load((ROOT / "params.yaml").read_text()), (ROOT / "docs/papers.md").read_text()
    section = page.split("## The papers and the default\n")[1].split("\n## ")[0]
    cells = [line.split("|")[3:5] for line in section.splitlines() if line.startswith("| ")]
    rows = [[re.findall(r"`([^`]+)`", cell) for cell in row] for row in cells[1:]]
    told = {key: yaml.safe_load(value) for default, keys in rows for key, value in zip(keys, default, strict=True)}
    assert told["mgt.alone.steps"] == 40
    assert told == {key: reduce(lambda section, name: section[name], key.split("."), params) for key in told}
