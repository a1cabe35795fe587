"""Figures that repeat; the page: whole, safe, self-contained; what is missing is told."""

import re
from html import unescape
from pathlib import Path

import polars as pl
import pytest
from matplotlib.image import imread

from gnn_encoder.base.files import write_json
from gnn_encoder.evaluate import slices
from gnn_encoder.evaluate.report import recall_of, render, write_figures
from gnn_encoder.evaluate.slices import won_and_lost_table
from gnn_encoder.evaluate.tables import DATA, data_key
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import load_params

from .conftest import TEXTS, values_of

MEANS = {
    "dual_encoder": {"RR@10": 0.4512, "R@5": 0.6, "R@100": 0.9},
    "gnn_encoder": {"RR@10": 0.4766, "R@5": 0.625, "R@100": 1.0},
}


def text_of(page: str) -> str:
    """What a reader sees: the page escapes all text, so that each `<` begins an element."""
    body = page[page.index("<body>") :]
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())


def test_the_page_is_whole_and_safe(folder: Path) -> None:
    """Nothing is fetched, nothing runs, and the text of passages and queries stays text."""
    page = render(load_params())
    tags, ids = re.findall(r"<(\w+)", page), re.findall(r'\sid="([^"]*)"', page)
    assert len(ids) == len(set(ids)) and set(re.findall(r'href="([^"]*)"', page)) == {f"#{one}" for one in ids}
    assert tags.count("h1") == 1 and tags.count("table") == tags.count("caption") == 7
    assert all(page.count(f"</{tag}>") == tags.count(tag) for tag in {*tags} - {"meta", "br", "img"})
    assert not {"script", "link", "iframe", "object", "embed", "base"} & set(tags)
    assert not re.search(r"<[^>]*\s(on\w+|srcset|data|action|poster)=|@import|url\(", page)
    loaded = re.findall(r'\ssrc="([^"]*)"', page)
    assert len(loaded) == 2 and all(one.startswith("data:image/png;base64,") for one in loaded)
    text = text_of(page)
    shown = [" ".join(TEXTS[row].split()) for row in (0, 1, 3)]
    for told in (*shown, "<script>alert('second')</script>", "<i>title</i> </script>"):
        assert told in text
    assert text.count("GNN-encoder's RR@10 above ") == 2 and "no graph: test -11.1 [" in text
    assert "a labelled query 0.250 0.200 to 0.300" in text and "<b>? text no training query informed it –" in text
    assert "Not made" not in text


def test_nothing_has_run(empty: Path) -> None:
    text = text_of(render(load_params()))
    for told in ("nothing has run in this clone", "Slices Not made yet. Run dvc repro", "# The parameters of the exp"):
        assert told in text


def test_a_table_without_rows(folder: Path) -> None:
    counts = {"queries": 9, "won": 0, "lost": 0}
    write_json(project.INFORMED / "informed.json", {"attention": {}, "cases": [], "counts": counts})
    assert "Attention to" in text_of(render(load_params()))


@pytest.mark.parametrize("system", ["gnn_encoder", "dual_encoder"])
def test_what_is_missing_is_told(folder: Path, system: str) -> None:
    """The system was measured before `evaluate.significance` named the measure, which its values do not have."""
    path = project.measured(system) / project.VALUES
    values = pl.read_parquet(path).with_columns(measure=pl.lit("R@5"))
    values.write_parquet(path, metadata={DATA: data_key()})
    text = text_of(render(load_params()))
    assert "Test queries: GNN-encoder, with what" in text and "Won and lost Not made" in text


def test_what_gains_stands_first_and_what_loses_last(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_what_is_drawn_of_recall() -> None:
    odd = {"gnn_encoder": MEANS["gnn_encoder"], "bm25": {"R@100": 0.9, "RR@10": 0.1, "R(rel=2)@5": 0.2, "R@20": 0.7}}
    assert recall_of({"test": odd}).rows() == [
        *(("gnn_encoder", "test", "R", 5, 0.625), ("gnn_encoder", "test", "R", 100, 1.0)),
        *(("bm25", "test", "R", 20, 0.7), ("bm25", "test", "R", 100, 0.9)),
    ]
    of_more = recall_of({"test": {"bm25": {"Success@20": 0.75, "R@100": 0.9, "Success@5": 0.5}}})
    assert of_more.rows() == [("bm25", "test", "Success", 5, 0.5), ("bm25", "test", "Success", 20, 0.75)]


@pytest.mark.parametrize("means", [MEANS, {"bm25": {"RR@10": 0.1}}], ids=["recall", "none"])
def test_figures_are_drawn_and_repeat(tmp_path: Path, means: dict[str, dict[str, float]]) -> None:
    values = values_of({system: [0.0, 1 / 3, 2 / 3] for system in means})
    for name in ("a", "b"):
        write_figures(tmp_path / name, values, {"dev": means, "test": means}, "RR@10")
    for figure in ("systems.png", "recall.png"):
        assert (tmp_path / "a" / figure).read_bytes() == (tmp_path / "b" / figure).read_bytes()
        assert imread(tmp_path / "a" / figure).std() > 0.01
