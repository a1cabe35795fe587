"""No parameter of the graph or of its training is without effect on what is searched."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import chdir
from typing import Any

import numpy as np
import pytest

from gnn_encoder.base.matrix import Matrix
from gnn_encoder.train.loop import fit

from ..pipelines import Project, Ran
from ..project import call_stage

TRAIN = ["train_mgt", "encode_corpus"]
CHANGES: dict[str, tuple[Any, list[str]]] = {  # of beta, labels and k tests/estimator and test_dag.py tell
    "mgt__layers": (1, TRAIN),
    "mgt__gate": (0.5, TRAIN),
    "mgt__masking": ("drop_labelled", TRAIN),
    "mgt__softmax": ("corpus", TRAIN),
    "mgt__alone__steps": (0, TRAIN),
    "mgt__joint__steps": (0, TRAIN),
    "mgt__joint__batch_size": (4, TRAIN),
    "mgt__joint__gnn_learning_rate": (1e-2, TRAIN),
    "mgt__joint__encoder_learning_rate": (1e-2, TRAIN),
    "mgt__edge_features": ("none", ["embed_edges", *TRAIN]),
}


@pytest.fixture(scope="module")
def trained(reproduced: tuple[Project, Ran], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """The experiment, whose trainings end with their last weights: on texts without meaning the start may be best."""
    folder = shutil.copytree(reproduced[0].folder, tmp_path_factory.mktemp("trained") / "project", symlinks=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gnn_encoder.gnn.train.fit", lambda *task, **how: fit(*task, **how | {"evaluations": 0}))
        with chdir(folder):
            for stage in TRAIN:
                call_stage(stage)
        yield Project(folder, reproduced[0].environment)


def vectors(project: Project) -> Matrix:
    found: Matrix = np.load(project.folder / "data/embeddings/gnn_encoder/embeddings.npy").astype(np.float32)
    return found


@pytest.mark.parametrize("name", CHANGES)
def test_a_parameter_changes_the_passages(trained: Project, copy_of: Callable[..., Project], name: str) -> None:
    value, run = CHANGES[name]
    changed = copy_of(trained, stages_only=True)
    changed.set_params(**{name: value})
    with chdir(changed.folder):
        for stage in run:
            call_stage(stage)
    assert np.abs(vectors(changed) - vectors(trained)).max() > 1e-3


def test_an_index_that_finds_few_is_told(stages: Project) -> None:
    stages.set_params(index={"factory": "IVF40,Flat"})
    ran = stages.stage("build_index", "gnn_encoder")
    assert ran.status == 0, ran.output
    told = [line for line in ran.stderr.splitlines() if line.startswith("warning: index.factory IVF40,Flat found less")]
    assert len(told) == 2 and "retrieve.depth, 50, for" in told[0] and "of dev's queries" in told[0]
