"""What all tests share: no network, quiet libraries, the committed tiny corpus and model, `gpu` tests only on a GPU."""

import os
import shutil
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

# Before torch and transformers are imported anywhere: they read these once.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["MPLBACKEND"] = "agg"
os.environ.setdefault("OMP_NUM_THREADS", "1")  # a worker a core; matrices this small are computed no faster by two

import pytest

from gnn_encoder.pipeline.experiment import preview
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.project import registry

from .pipelines import copy_of, environment, reproduced, stages  # noqa: F401  (fixtures)
from .project import ROOT, declare

TINY = ROOT / "tests" / "tiny"


@pytest.fixture(autouse=True, scope="session")
def everywhere() -> Iterator[None]:
    """The registry of systems is this project's in any folder; and what is written need not outlive the machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda number: None)
        patch.setattr("gnn_encoder.pipeline.project.REGISTRY", ROOT / "systems.yaml")
        registry.cache_clear()
        yield


@pytest.fixture(scope="session")
def tiny_model() -> Path:
    """A randomly initialised BERT with its tokenizer, 32 dimensions: tests/tiny/README.md."""
    return TINY / "model"


@pytest.fixture(scope="session")
def tiny_params() -> Params:
    """The whole tiny experiment: tests/tiny/params.yaml laid over that of the root; it runs in any folder."""
    params = preview([str(TINY / "params.yaml")], ROOT / "params.yaml")
    data = params.data.model_copy(update={"unlabelled": str(TINY / "unlabelled.txt")})
    return params.model_copy(update={"data": data})


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that was built without training (built.py); read only: copy it to change it."""
    from .built import build  # only here: it loads torch

    folder = tmp_path_factory.mktemp("built") / "project"
    folder.mkdir()
    with chdir(folder):
        build(folder)
    return folder


@pytest.fixture
def built_copy(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of `built`, as the current folder."""
    monkeypatch.chdir(shutil.copytree(built, tmp_path / "project"))
    return Path.cwd()


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project as it is committed, in which nothing has run, as the current folder."""
    declare(tmp_path)
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    monkeypatch.chdir(tmp_path)
    return tmp_path


LONG = "GNN_ENCODER_LONG_TESTS"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for what takes minutes to hours."""
    parser.addoption("--long", action="store_true", help="run tests marked `long` too, and random ones at length")


def pytest_configure(config: pytest.Config) -> None:
    """Tell it to all modules, before they are imported."""
    if config.getoption("--long"):
        os.environ[LONG] = "1"


# One worker builds the tiny experiment, on which most tests of tests/pipeline and tests/faults wait. Meanwhile the
# other one has what needs nothing that has run. Files that take long come before short ones, so that both end together.
ORDER = [
    *("tests/pipeline/test_dag.py", "tests/pipeline/test_configs.py", "tests/serve/"),
    *("tests/train/", "tests/estimator/", "tests/fuzz/", "tests/gnn/test_tasks.py", "tests/text/test_families.py"),
    *("tests/pipeline/", "tests/faults/", "tests/dual_cross/"),
]


def begins(item: pytest.Item) -> int:
    """By what tests are ordered."""
    return next((place for place, start in enumerate(ORDER) if item.nodeid.startswith(start)), len(ORDER))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the tests in order; skip long ones without `--long`, and what needs a GPU where there is none."""
    items.sort(key=begins)
    if not config.getoption("--long"):
        skip([item for item in items if item.get_closest_marker("long")], "only with --long")
    if marked := [item for item in items if item.get_closest_marker("gpu")]:
        import torch

        if not torch.cuda.is_available():
            skip(marked, "no CUDA device here")


def skip(items: list[pytest.Item], reason: str) -> None:
    """Tell why these do not run."""
    for item in items:
        item.add_marker(pytest.mark.skip(reason=reason))
