"""No parameter of the graph or of its training is without effect on what is searched."""

from typing import Any

import numpy as np
import pytest

from gnn_encoder.base.matrix import Matrix
from gnn_encoder.train.loop import fit

from ..project import call_stage

TRAIN = ["train_mgt", "encode_corpus"]
GRAPH = ["build_graph", "embed_edges", *TRAIN]
CHANGES: dict[str, tuple[Any, list[str]]] = {
    "mgt__beta": (0.5, TRAIN),
    "mgt__layers": (1, TRAIN),
    "mgt__gate": (0.5, TRAIN),
    "mgt__masking": ("drop_labelled", TRAIN),
    "mgt__softmax": ("corpus", TRAIN),
    "mgt__alone__steps": (0, TRAIN),
    "mgt__alone__learning_rate": (1e-3, TRAIN),
    "mgt__joint__steps": (0, TRAIN),
    "mgt__joint__batch_size": (4, TRAIN),
    "mgt__joint__gnn_learning_rate": (1e-2, TRAIN),
    "mgt__joint__encoder_learning_rate": (1e-2, TRAIN),
    "mgt__edge_features": ("none", ["embed_edges", *TRAIN]),
    "mgt__labels": (False, GRAPH),
    "build_graph__k": (3, GRAPH),
}


@pytest.fixture
def last_weights(stages: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The experiment, whose trainings end with their last weights: on texts without meaning the start may be best."""
    monkeypatch.chdir(stages.folder)
    monkeypatch.setattr("gnn_encoder.gnn.train.fit", lambda *task, **how: fit(*task, **how | {"evaluations": 0}))
    return stages


def vectors(project: Any) -> Matrix:
    found: Matrix = np.load(project.folder / "data/embeddings/gnn_encoder/embeddings.npy").astype(np.float32)
    return found


@pytest.mark.parametrize("name", CHANGES)
def test_a_parameter_changes_the_passages(last_weights: Any, name: str) -> None:
    value, run = CHANGES[name]
    for stage in TRAIN:
        call_stage(stage)
    before = vectors(last_weights)
    last_weights.set_params(**{name: value})
    for stage in run:
        call_stage(stage)
    assert np.abs(vectors(last_weights) - before).max() > 1e-3


def test_an_index_that_finds_few_is_told(stages: Any) -> None:
    stages.set_params(index={"factory": "IVF40,Flat"})
    ran = stages.stage("build_index", "gnn_encoder")
    assert ran.status == 0, ran.output
    told = [line for line in ran.stderr.splitlines() if line.startswith("warning: index.factory IVF40,Flat found less")]
    assert len(told) == 2 and "retrieve.depth, 50, for" in told[0] and "of dev's queries" in told[0]
