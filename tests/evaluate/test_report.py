"""Figures that repeat, with CSV for `dvc plots`; the page: whole, safe, self-contained; what is missing is told."""

import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest
from matplotlib.image import imread

from gnn_encoder.base.files import write_json
from gnn_encoder.evaluate import slices
from gnn_encoder.evaluate.judge import read_values
from gnn_encoder.evaluate.report import measures_of, recall_of, render, write_figures
from gnn_encoder.evaluate.slices import won_and_lost_table
from gnn_encoder.evaluate.tables import claim_of_main
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params, load_params
from gnn_encoder.pipeline.project import registry

from .conftest import TEXTS, values_of

VOID = {"meta", "br", "img", "link", "input", "hr"}
MEANS = {
    "dual_encoder": {"RR@10": 0.4512, "R@5": 0.6, "R@100": 0.9},
    "gnn_encoder": {"RR@10": 0.4766, "R@5": 0.625, "R@100": 1.0},
}


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

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        self.words += [] if self._open and self._open[-1] == "style" else data.split()

    @property
    def text(self) -> str:
        return " ".join(self.words)

    def values(self, *names: str) -> list[str]:
        return [value for _, attributes in self.elements for name in names if (value := attributes.get(name))]


@pytest.fixture
def params(empty: Path) -> Params:
    return load_params()


def test_the_page_is_whole_and_safe(one_branch: Path, params: Params) -> None:
    """Nothing is fetched, nothing runs, and the text of passages and queries stays text."""
    plots = project.PLOTS / "gnn_encoder"
    plots.mkdir(parents=True)
    (plots / "systems.png").write_bytes(b"\x89PNG")
    for system in registry().branches["gnn_encoder"].systems:  # a figure is shown where all systems were measured
        if not project.measured(system).exists():
            shutil.copytree(project.measured("dual_encoder"), project.measured(system))
    html = render(params)
    page = Structure(html)
    ids, tags = page.values("id"), [tag for tag, _ in page.elements]
    assert len(ids) == len(set(ids)) and {value[1:] for value in page.values("href")} == set(ids)
    assert tags.count("h1") == 1 and tags.count("table") == tags.count("caption") > 2
    assert not {"script", "link", "iframe", "object", "embed", "base"} & set(tags)
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    (loaded,) = page.values("src", "srcset", "data", "action", "poster")
    assert loaded.startswith("data:image/png;base64,") and not re.search(r"@import|url\(", html)
    assert all(" ".join(TEXTS[row].split()) in page.text for row in (0, 1, 3))
    assert "<script>alert('second')</script>" in page.text and "<i>title</i> </script>" in page.text


def test_nothing_has_run(empty: Path, params: Params) -> None:
    text = Structure(render(params)).text
    for told in ("dvc repro prepare", "dvc repro pipelines/pair/dvc.yaml", "# The parameters of the experiment"):
        assert told in text


@pytest.mark.parametrize("system", ["gnn_encoder", "dual_encoder"])
def test_what_is_missing_is_told(one_branch: Path, params: Params, system: str) -> None:
    """The system was measured before `evaluate.significance` named the measure, which its values do not have."""
    path = project.measured(system) / project.VALUES
    pl.read_parquet(path).with_columns(measure=pl.lit("R@5")).write_parquet(path)
    text = Structure(render(params)).text
    figures = ("Test queries: GNN-encoder, with what", "+5.6 [+4.6, +6.6]", "p = 0.04")
    for told in (*figures, "Slices Not made", "Won and lost Not made"):
        assert told in text


def test_the_claim_what_was_chosen_and_what_informs(one_branch: Path, params: Params) -> None:
    values = read_values(["untouched", "dual_encoder", "gnn_encoder"])
    write_json(project.METRICS / "gnn_encoder" / "claim.json", claim_of_main(values, "RR@10"))
    half = {"setting": {"weight": -0.25}, "value": 0.5}
    choice = {"measure": "RR@10", "queries": 3, "chosen": half, "tried": [half]}
    write_json(project.RUNS / "query_mean" / "choice.json", choice)
    share = {"mean": 0.25, "low": 0.2, "high": 0.3, "passages": 7}
    case = {"query": "<b>?", "passage": "text", "rank_of_dual_encoder": None, "informed_by": []}
    told = {"attention": {"labelled": share}, "counts": {"queries": 9, "won": 1, "lost": 0}, "cases": [case]}
    write_json(project.evaluation("gnn_encoder") / "informed.json", told)
    text = Structure(render(params)).text
    # Mean reciprocal ranks: 11/18 of M_de and of the base model, 12/18 of GNN-encoder.
    assert text.count("GNN-encoder against M") == 1 and "in RR@10: test +5.6 [" in text
    for told in ("Chosen on 3 dev queries", "weight -0.25", "a labelled query 0.250 0.200 to 0.300", "<b>? text –"):
        assert told in text


def test_what_gains_stands_first_and_what_loses_last(one_branch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """M_de has the relevant p1 at rank 2, GNN-encoder at rank 1; the first query is the same for both."""
    monkeypatch.setattr(slices, "LONGEST", 20)
    found = won_and_lost_table("gnn_encoder", "RR@10")
    assert found and found.columns == ["query", "first by M_de", "first by GNN-encoder", "RR@10"]
    link = "see …"
    assert found.rows == [
        ["<script>alert('second')</script>", link, "<i>title</i> …", "0.50 → 1.00"],
        ["third?", link, "{{ 7 * 7 }} {% raw …", "0.33 → 0.00"],
    ]
    assert found.note == "1 queries better, 1 worse, 1 the same"
    assert won_and_lost_table("pair", "RR@10") is None, "nothing of it was measured"


def test_csv() -> None:
    lines = measures_of({"dev": MEANS}).write_csv().splitlines()
    assert lines[:2] == ["system,split,measure,value", "dual_encoder,dev,RR@10,0.4512"] and len(lines) == 7
    odd = {"gnn_encoder": MEANS["gnn_encoder"], "bm25": {"R@100": 0.9, "RR@10": 0.1, "R(rel=2)@5": 0.2, "R@20": 0.7}}
    assert recall_of({"test": odd}).rows() == [
        *(("gnn_encoder", "test", "R", 5, 0.625), ("gnn_encoder", "test", "R", 100, 1.0)),
        *(("bm25", "test", "R", 20, 0.7), ("bm25", "test", "R", 100, 0.9)),
    ]
    by_answers = recall_of({"test": {"bm25": {"Success@20": 0.75, "RR@10": 0.1}}})
    assert by_answers.rows() == [("bm25", "test", "Success", 20, 0.75)]


@pytest.mark.parametrize("means", [MEANS, {"bm25": {"RR@10": 0.1}}], ids=["recall", "none"])
def test_figures_are_drawn_and_repeat(tmp_path: Path, means: dict[str, dict[str, float]]) -> None:
    values = values_of({system: [0.0, 1 / 3, 2 / 3] for system in means})
    for name in ("a", "b"):
        write_figures(tmp_path / name, values, {"dev": means, "test": means}, "RR@10")
    for figure in ("systems.png", "recall.png"):
        assert (tmp_path / "a" / figure).read_bytes() == (tmp_path / "b" / figure).read_bytes()
        assert imread(tmp_path / "a" / figure).std() > 0.01
