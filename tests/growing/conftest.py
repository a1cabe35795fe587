"""Projects with a built GNN-encoder, one for each kind of graph, and copies of them to change."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import chdir
from pathlib import Path

import pytest

from gnn_encoder.pipeline.params import Params

from .projects import Kind, make

KINDS = {
    "product": Kind("product"),
    "cross_encoder": Kind("cross_encoder", joint=True),
    "plain_edges": Kind("none", layers=1, joint=True, labelled=False, max_neighbours=2),
    "without_labels": Kind("product", labelled_edges=False),
    "generated": Kind("product", generated=True),
    "generated_without_labels": Kind("product", labelled_edges=False, generated=True),
}


@pytest.fixture(scope="session")
def built(
    tmp_path_factory: pytest.TempPathFactory, tiny_params: Params, tiny_corpus: Path
) -> Callable[[str], tuple[Path, Params]]:
    """The folder and the parameters of a project of some kind, built once; not to be changed."""
    made: dict[str, tuple[Path, Params]] = {}

    def of_kind(name: str) -> tuple[Path, Params]:
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            with chdir(folder):
                made[name] = folder, make(folder, tiny_params, tiny_corpus, KINDS[name])
        return made[name]

    return of_kind


@pytest.fixture
def project_of(
    built: Callable[[str], tuple[Path, Params]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Params]:
    """Makes a copy of a built project the current folder."""

    def copy(name: str) -> Params:
        folder, params = built(name)
        target = tmp_path / "project"
        shutil.copytree(folder, target, copy_function=os.link)  # a command that changed a build's file would change all
        monkeypatch.chdir(target)
        return params

    return copy


@pytest.fixture(autouse=True)
def builds_stay(built: Callable[[str], tuple[Path, Params]]) -> Iterator[None]:
    """No command changes a file of the pipeline."""
    yield
