"""The registry of systems: what it says of a small one by hand, and the mistakes in one."""

from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import pytest
import yaml

from gnn_encoder.base.errors import UserError
from gnn_encoder.evaluate.report import system_style
from gnn_encoder.pipeline.project import HYBRID, LEXICAL, MAIN, REFERENCE, UNTOUCHED, read_registry, registry, title_of

SMALL = """
branches:
  main:
    baseline: base
    systems:
      words: {kind: lexical, title: Words}
      base: {kind: plain, title: Base}
      mean: {kind: shifted, title: Mean, base: base}
      sum: {kind: reordered, by: closed_form, title: Sum, base: base}
      near: {kind: reordered, by: logged, title: Near, base: base}
      graph: {kind: graph, title: Graph, base: base}
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
    main, side = ["words", "base", "mean", "sum", "near", "graph"], ["other", "better", "both"]
    assert list(small.systems) == [*main, *side, "many"]
    assert list(small.branches["main"].systems) == main and small.systems["both"].branch == "side"
    encoders = {"base": "base", "mean": "base", "graph": "mgt/graph/encoder", "other": "other", "better": "better"}
    assert {name: one.encoder for name, one in small.dense.items()} == {
        name: f"data/{folder}" for name, folder in (encoders | {"many": "many"}).items()
    }


def test_what_systems_are_shown_with(small: Any) -> None:
    assert small.one_vector == ["base", "mean", "sum", "graph", "other", "better"]
    assert small.shown_with("side") == ["other", "better", "both"]
    assert small.shown_with("built") == ["better", "many"]


def test_the_project_s_own() -> None:
    assert {MAIN, REFERENCE, LEXICAL, UNTOUCHED, HYBRID} <= registry().systems.keys()
    papers = {"gnn_encoder": "dual_encoder", "pair": "pair_no_psr", "dual_cross": "dual_cross_dpr"}
    assert {name: registry().branches[name].baseline for name in papers} == papers
    assert len({tuple(system_style(name).items()) for name in registry().systems}) == len(registry().systems)
    assert title_of("dual_encoder") == "M_de" and title_of("a branch without one") == "a branch without one"


PLAIN = "base, other, better"
EVERY = "words, base, mean, sum, near, graph, other, better, both, many"
NONE: Any = object()


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("main.systems.words.encoder", "data/words", "main.systems.words.encoder: extra inputs are not"),
        ("main.systems.graph.base", NONE, f"graph.base is '': must be one of {PLAIN}"),
        ("main.systems.graph.base", "words", f"graph.base is 'words': must be one of {PLAIN}"),
        ("side.systems.better.title", 5, "side.systems.better.title: input should be a valid string"),
        ("side.systems.better.kind", "none", "side.systems.better.kind: input should be 'lexical', 'plain'"),
        ("side.baseline", NONE, "side.baseline: field required"),
        ("side.baseline", "none", f"side.baseline is 'none': must be one of {EVERY}"),
    ],
)
def test_a_wrong_registry(tmp_path: Path, place: str, value: Any, message: str) -> None:
    values = yaml.safe_load(SMALL)
    *sections, key = ("branches", *place.split("."))
    section = reduce(getitem, sections, values)
    section[key] = value
    if value is NONE:
        del section[key]
    path = tmp_path / "systems.yaml"
    path.write_text(yaml.safe_dump(values, sort_keys=False))
    with pytest.raises(UserError) as caught:
        read_registry(path)
    text = str(caught.value).removeprefix(f"{path}: ").removeprefix("branches.")
    assert text.startswith(message) and "\n" not in text


@pytest.mark.parametrize("text", ["a: [1\nb", "", "- 1", "branches: 3", "branches: {a: {systems: 3}}", None])
def test_no_registry(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "systems.yaml"
    if text is not None:
        path.write_text(text)
    told = "not a registry" if text is not None else r"systems\.yaml: no such file; run from the project's root"
    with pytest.raises(UserError, match=told) as caught:
        read_registry(path)
    assert "\n" not in str(caught.value)
