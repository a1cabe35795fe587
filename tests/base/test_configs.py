"""The papers' experiments in configs/ say what the papers say; expected values are read off the papers."""

from functools import reduce
from typing import Any

import pytest

from gnn_encoder.pipeline.experiment import preview
from gnn_encoder.pipeline.params import Params

from ..project import ROOT

CONFIGS = ROOT / "configs"
PAPERS = ("msmarco", "nq")

# GNN-encoder, sections 3.4 and 4.3.
EVERYWHERE = {
    "encoder.pooling": "cls",
    "encoder.similarity": "dot",
    "encoder.temperature": 1.0,
    "build_graph.k": 25,
    "denoise.positive_threshold": 0.9,
    "denoise.negative_threshold": 0.1,
    "train_dual_encoder.learning_rate": 2e-5,
    "train_dual_encoder.negatives": 1,
    "mgt.layers": 2,
    "mgt.gate": "learned",
    "mgt.edge_features": "cross_encoder",
    "mgt.masking": "mgt",
    "mgt.labels": False,
    "mgt.softmax": "batch",
    "mgt.alone.steps": 0,
    "mgt.beta": 0.05,
    "mgt.joint.batch_size": 1024 * 4,
    "mgt.joint.encoder_learning_rate": 2e-6,
    "mgt.joint.gnn_learning_rate": 5e-5,
    # PAIR, section 4.2 and Table 5.
    "pair.pretrain.alpha": 0.1,
    "pair.pretrain.batch_size": 512 * 8,
    "pair.pretrain.learning_rate": 3e-5,
    "pair.pretrain.negatives": 4,
    "pair.finetune.alpha": 0.0,
    # Dual-Cross-Encoder, section 4.4.
    "dual_cross.views": 10,
    "dual_cross.pretrain.batch_size": 256 * 8,
    "dual_cross.pretrain.negatives": 0,
    "dual_cross.finetune.batch_size": 32 * 8,
    "dual_cross.finetune.negatives": 7,
    "dual_cross.finetune.learning_rate": 5e-6,
}
# Passes over so many queries, or over the corpus with one query a passage: the sections of the same papers.
PASSES = {
    **{"train_retriever": 40, "train_cross_encoder": 2, "train_dual_encoder": 10, "mgt.joint": 5},
    **{"pair.pretrain": 10, "pair.finetune": 10, "dual_cross.pretrain": 10, "dual_cross.finetune": 20},
}
SIZES = {"msmarco": (500_927, 8_841_823), "nq": (58_880, 21_015_324)}  # training queries and passages
ERNIE = "nghuyong/ernie-2.0-base-en"
EACH: dict[str, dict[str, Any]] = {
    "msmarco": {
        "data.source": "msmarco",
        "data.test": "dev",
        "encoder.model": ERNIE,
        "train_dual_encoder.batch_size": 2048 * 2,
        "pair.finetune.batch_size": 512 * 8,
        "evaluate.significance": "RR@10",
    },
    "nq": {
        "data.source": "dpr",
        "data.name": "nq",
        "encoder.model": ERNIE,
        "train_dual_encoder.batch_size": 256 * 4,
        "pair.finetune.batch_size": 512,
        "evaluate.measures": ["Success@5", "Success@20", "Success@100"],
    },
}


def complete(name: str) -> Params:
    return preview([str(CONFIGS / f"{name}.yaml")], ROOT / "params.yaml")


@pytest.mark.parametrize("name", PAPERS)
def test_hyper_parameters_are_the_papers(name: str) -> None:
    params = complete(name)
    expected = EVERYWHERE | EACH[name]
    assert {key: reduce(getattr, key.split("."), params) for key in expected} == expected
    queries, passages = SIZES[name]
    for section, passes in PASSES.items():
        found = reduce(getattr, section.split("."), params)
        size = passages if section == "dual_cross.pretrain" else queries
        # A batch of MGT is at most a fold.
        batch = min(found.batch_size, size / 20) if section == "mgt.joint" else found.batch_size
        assert found.steps == pytest.approx(passes * size / batch, abs=1), section
