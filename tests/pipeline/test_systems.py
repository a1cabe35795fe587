"""The registry of systems: what it says of a small one by hand, the mistakes in one, and how systems are made."""

from pathlib import Path
from typing import Any

import pytest

from gnn_encoder.base.errors import UserError
from gnn_encoder.evaluate.report import system_style
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.project import HYBRID, LEXICAL, MAIN, REFERENCE, UNTOUCHED, read_registry, registry, title_of
from gnn_encoder.pipeline.stage import read_stages

from ..project import ROOT

SMALL = """
branches:
  main:
    baseline: base
    systems:
      words: {kind: lexical, title: Words}
      base: {kind: plain, title: Base}
      mean: {kind: shifted, base: base, title: Mean}
      sum: {kind: reordered, by: closed_form, title: Sum}
      near: {kind: reordered, by: logged, title: Near}
      gnn_encoder: {kind: graph, title: Graph}
      moved: {kind: shifted, base: gnn_encoder, title: Moved}
  side:
    baseline: other
    systems:
      other: {kind: plain, title: Other}
      better: {kind: plain, title: Better}
      both: {kind: fused, title: Both}
  built: {baseline: better, systems: {many: {kind: views, title: Many}}}
"""


@pytest.fixture
def small(tmp_path: Path) -> Any:
    path = tmp_path / "systems.yaml"
    path.write_text(SMALL)
    return read_registry(path)


def test_the_order_is_the_file_s(small: Any) -> None:
    main, side = ["words", "base", "mean", "sum", "near", "gnn_encoder", "moved"], ["other", "better", "both"]
    assert list(small.systems) == [*main, *side, "many"]
    assert list(small.branches["main"].systems) == main
    encoders = {"mean": "base", "gnn_encoder": "mgt/encoder", "moved": "mgt/encoder"}
    plain = {name: name for name in ("base", "other", "better", "many")}
    folders = {name: Path("data") / folder for name, folder in (plain | encoders).items()}
    assert {name: small.encoder(name) for name in small.dense} == folders


def test_what_costs_one_vector_and_has_no_graph(small: Any) -> None:
    assert small.rivals == ["base", "mean", "sum", "other", "better"]


def test_the_project_s_own() -> None:
    assert {MAIN, REFERENCE, LEXICAL, UNTOUCHED, HYBRID} <= registry().systems.keys()
    papers = {"gnn_encoder": "dual_encoder", "pair": "pair_no_psr", "dual_cross": "dual_cross_dpr"}
    assert {name: registry().branches[name].baseline for name in papers} == papers
    assert len({tuple(system_style(name).items()) for name in registry().systems}) == len(registry().systems)
    assert title_of("dual_encoder") == "M_de" and title_of("a branch without one") == "a branch without one"


def test_the_registry_and_the_pipelines_agree() -> None:
    """What a system is called and compared with stands in the one, how it is made in the others."""
    made = {path.as_posix(): one for one in read_stages(ROOT) for path in one.outs}
    for name in registry().dense:
        for place in (project.embeddings(name), project.index(name), project.runs(name)):
            assert place.as_posix() in made, place
        assert any(path in (project.encoder(name), *project.encoder(name).parents) for path in map(Path, made))
    for branch, one in registry().branches.items():
        stage = made[f"data/measures/{branch}"]
        own = {project.runs(system) for system in one.systems}
        assert {path for path in stage.inputs if path.parent == project.RUNS} == own
        assert not [path for path in stage.inputs if path.parent == project.MEASURES]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "kind: graph,",
            "kind: grap,",
            "branches.main.systems.gnn_encoder.kind is 'grap': input should be 'lexical', ",
        ),
        ("main:", "main: [", "not valid YAML: "),
    ],
)
def test_a_wrong_registry(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "systems.yaml"
    with pytest.raises(UserError, match=r"systems\.yaml: no such file; run from the project's root"):
        read_registry(path)
    path.write_text(SMALL.replace(old, new))
    with pytest.raises(UserError) as caught:
        read_registry(path)
    assert str(caught.value).startswith(f"{path}: {message}") and "\n" not in str(caught.value)
