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
    "train_dual_encoder.epochs": 10,
    "train_dual_encoder.learning_rate": 2e-5,
    "train_dual_encoder.negatives": 1,
    "mgt.layers": 2,
    "mgt.gate": "learned",
    "mgt.edge_features": "cross_encoder",
    "mgt.masking": "mgt",
    "mgt.beta": 0.05,
    "mgt.joint.epochs": 5,
    "mgt.joint.batch_size": 1024 * 4,
    "mgt.joint.encoder_learning_rate": 2e-6,
    "mgt.joint.gnn_learning_rate": 5e-5,
    # PAIR, section 4.2 and Table 5.
    "pair.s_pos": 0.9,
    "pair.s_neg": 0.1,
    "pair.pretrain.alpha": 0.1,
    "pair.pretrain.batch_size": 512 * 8,
    "pair.pretrain.epochs": 10,
    "pair.pretrain.learning_rate": 3e-5,
    "pair.pretrain.negatives": 4,
    "pair.finetune.alpha": 0.0,
    "pair.finetune.epochs": 10,
    # Dual-Cross-Encoder, section 4.4.
    "dual_cross.views": 10,
    "dual_cross.pretrain.epochs": 1,  # over all ten queries of a passage: the paper's 10 passes of one
    "dual_cross.pretrain.batch_size": 256 * 8,
    "dual_cross.pretrain.negatives": 0,
    "dual_cross.finetune.epochs": 20,
    "dual_cross.finetune.batch_size": 32 * 8,
    "dual_cross.finetune.negatives": 7,
    "dual_cross.finetune.learning_rate": 5e-6,
}
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
