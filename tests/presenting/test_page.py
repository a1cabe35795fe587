"""The page as a file: whole, safe, self-contained, the same twice; what is missing is told."""

import base64
import re
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest

from gnn_encoder.base.files import write_json
from gnn_encoder.controls.choose import Choice, Tried, write_choice
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.judging import claim_of_main, read_values
from gnn_encoder.pipeline.params import Params, load_params
from gnn_encoder.presenting.page import render

from .conftest import TEXTS

VOID = {"meta", "br", "img", "link", "input", "hr"}
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Structure(HTMLParser):
    """Elements with their attributes; fails where one is not closed in turn."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert len(dict(attributes)) == len(attributes), f"{tag} has an attribute twice"
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        if not self._open or self._open[-1] not in ("script", "style"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def values(self, *names: str) -> list[str]:
        return [value for _, attributes in self.elements for name in names if (value := attributes.get(name))]


@pytest.fixture
def params(empty: Path) -> Params:
    return load_params()


def test_whole_and_navigable(one_branch: Path, params: Params) -> None:
    page = Structure(render(params))
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    assert {value[1:] for value in page.values("href")} == set(ids)
    tags = [tag for tag, _ in page.elements]
    assert tags.count("h1") == 1 and tags.count("table") == tags.count("caption") > 2


def test_nothing_is_fetched_and_nothing_runs(one_branch: Path, params: Params) -> None:
    project.PLOTS.mkdir()
    (project.PLOTS / "systems.png").write_bytes(PIXEL)
    project.COMPARISON.mkdir()
    page = render(params)
    structure = Structure(page)
    fetching = {"script", "link", "iframe", "object", "embed", "base"}
    assert not fetching & {tag for tag, _ in structure.elements}
    assert not any(name.startswith("on") for _, attributes in structure.elements for name in attributes)
    loaded = structure.values("src", "srcset", "data", "action", "poster")
    assert len(loaded) == 1 and loaded[0].startswith("data:image/png;base64,")
    assert not re.search(r"@import|url\(", page)


def test_text_of_passages_and_queries_stays_text(one_branch: Path, params: Params) -> None:
    text = Structure(render(params)).text
    assert all(" ".join(TEXTS[row].split()) in text for row in (0, 1, 3))
    assert "<script>alert('second')</script>" in text and "relevant: <i>title</i> </script>" in text


def test_nothing_has_run(empty: Path, params: Params) -> None:
    text = Structure(render(params)).text
    assert "dvc repro prepare" in text
    for pipeline in ("comparison", "pair", "dual_cross"):
        assert f"dvc repro pipelines/{pipeline}/dvc.yaml" in text
    assert "not in a git repository" in text and "# The parameters of the experiment" in text


def test_one_branch_shows_what_it_has_and_names_the_rest(one_branch: Path, params: Params) -> None:
    text = Structure(render(params)).text
    assert "Test queries: GNN-encoder, with what it is compared with" in text
    assert "+5.6 [+4.6, +6.6]" in text and "p = 0.04" in text
    assert "Costs Not made yet. Run dvc repro pipelines/comparison/dvc.yaml ." in text
    assert "Slices Not made yet. Run dvc repro ." in text


@pytest.mark.parametrize("system", ["gnn_encoder", "dual_encoder"])
def test_a_system_without_the_measure_is_left_out(one_branch: Path, params: Params, system: str) -> None:
    """It was measured before `evaluate.significance` named the measure, which its values do not have."""
    path = project.measured(system) / project.VALUES
    pl.read_parquet(path).with_columns(measure=pl.lit("R@5")).write_parquet(path)
    assert "Won and lost Not made yet. Run dvc repro ." in Structure(render(params)).text


def test_the_claim_and_what_was_chosen(one_branch: Path, params: Params) -> None:
    values = read_values(["retriever", "dual_encoder", "gnn_encoder"])
    write_json(project.METRICS / "gnn_encoder" / "claim.json", claim_of_main(values, params.evaluate))
    half = Tried(setting={"weight": -0.25}, value=0.5)
    write_choice(project.RUNS / "query_mean", Choice(measure="RR@10", queries=3, chosen=half, tried=[half]))
    page = render(params)
    # Mean reciprocal ranks: 11/18 of M_de and of the first retriever, 12/18 of GNN-encoder.
    assert page.count("<p>GNN-encoder against ") == 1 and "in RR@10: test +5.6 [" in page
    assert "Chosen on 3 dev queries" in page and "<td>weight -0.25</td>" in page
