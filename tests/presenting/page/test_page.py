"""The page as a file: whole, safe, self-contained, the same twice; what is missing is told."""

import base64
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest

from gnn_encoder.baselines.choice import Choice, Tried, write_choice
from gnn_encoder.core.records import QRELS
from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.core.storage.tables import write_table
from gnn_encoder.evaluation.claim import write_claim
from gnn_encoder.evaluation.values import read_values
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params, load_params
from gnn_encoder.presenting.page import queries
from gnn_encoder.presenting.page.render import render
from gnn_encoder.presenting.params import Report

from ..conftest import TEXTS, embedded

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
    references = [value[1:] for value in page.values("href", "xlink:href")]
    drawn = re.findall(r"url\(#([^)]+)\)", " ".join(page.values("clip-path", "style", "marker-end")))
    assert references and drawn and set(references + drawn) <= set(ids)
    headings = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h[1-6]", tag)]
    assert headings.count(1) == 1
    tables = [tag for tag, _ in page.elements if tag in ("table", "caption")]
    assert tables.count("table") > 2
    pictures = [attributes for tag, attributes in page.elements if tag == "svg"]
    assert len(pictures) >= 4 and all(one["role"] == "img" and one["aria-label"] for one in pictures)


def test_nothing_is_fetched(one_branch: Path, params: Params) -> None:
    page = render(params)
    structure = Structure(page)
    assert not {"link", "iframe", "object", "embed", "base"} & {tag for tag, _ in structure.elements}
    loaded = structure.values("src", "srcset", "data", "action", "poster")
    assert all(value.startswith("data:") for value in loaded)
    assert all(value.startswith("#") for value in structure.values("href"))
    outside_data = page.replace(str(embedded(page)), "")
    assert not re.search(r"@import|url\(\s*['\"]?(?!#)|fetch\(|XMLHttpRequest|import\(", outside_data)


def test_foreign_text_stays_text(one_branch: Path, params: Params) -> None:
    page = render(params)
    structure = Structure(page)
    scripts = [attributes for tag, attributes in structure.elements if tag == "script"]
    assert [one.get("type") for one in scripts] == ["application/json", None]
    assert "img" not in {tag for tag, _ in structure.elements}
    assert not any(name.startswith("on") for _, attributes in structure.elements for name in attributes)
    data = embedded(page)
    assert {text["text"] for text in data["texts"]} == set(TEXTS)  # type: ignore[index, attr-defined]
    # Without JavaScript one pair of systems is there, as text: q1 and q2 come out differently.
    assert TEXTS[1] in structure.text and "<script>alert('second')</script>" in structure.text
    assert "innerHTML" not in page and "insertAdjacentHTML" not in page and "document.write" not in page


def test_embedded_queries(one_branch: Path, params: Params) -> None:
    data = embedded(render(params))
    assert data["systems"] == ["retriever", "dual_encoder", "gnn_encoder"] and data["measure"] == "RR@10"
    assert data["start"] == {"split": 0, "first": "dual_encoder", "second": "gnn_encoder"}
    split = data["splits"][0]  # type: ignore[index]
    (pair,) = (one for one in split["pairs"] if (one["first"], one["second"]) == ("dual_encoder", "gnn_encoder"))
    asked = [query["qid"] for query in split["queries"]]
    assert ([asked[place] for place in pair["won"]], [asked[place] for place in pair["lost"]]) == (["q1"], ["q2"])
    assert (pair["better"], pair["worse"], pair["same"]) == (1, 1, 1)
    second = split["queries"][asked.index("q1")]
    pids = [[data["texts"][place]["pid"] for place in places] for places in second["passages"]]  # type: ignore[index]
    assert pids == [["p0", "p3", "p1"], ["p0", "p1", "p2"], ["p1", "p0", "p2"]]
    assert [data["texts"][place]["pid"] for place in second["relevant"]] == ["p1"]  # type: ignore[index]


def test_a_reciprocal_rank_tells_the_right_passage_where_no_judgement_does(one_branch: Path, params: Params) -> None:
    from gnn_encoder.core.records import QRELS
    from gnn_encoder.core.storage.tables import write_table

    for split in ("dev", "test"):
        write_table(project.qrels(split), QRELS, [])
    data = embedded(render(params))
    queries = {query["qid"]: query for query in data["splits"][0]["queries"]}  # type: ignore[index]
    assert [data["texts"][place]["pid"] for place in queries["q1"]["relevant"]] == ["p1"]  # type: ignore[index]


def test_the_same_artifacts_give_the_same_bytes(one_branch: Path, params: Params) -> None:
    assert render(params) == render(params)


def test_passages_are_cut_to_fit(one_branch: Path, params: Params, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "BUDGET", 40)
    monkeypatch.setattr(queries, "SHORTEST", 5)
    data = embedded(render(params))
    assert data["cut"] == 10
    assert [text["text"] for text in data["texts"]][0] == "plain wor…"  # type: ignore[index, attr-defined]
    assert max(len(text["text"]) for text in data["texts"]) == 10  # type: ignore[index, attr-defined]


def test_fewer_queries_and_passages_on_demand(one_branch: Path, params: Params) -> None:
    fewer = params.model_copy(update={"report": Report(queries=1, passages=1)})
    data = embedded(render(fewer))
    assert {len(places) for q in data["splits"][0]["queries"] for places in q["passages"]} == {1}  # type: ignore[index]
    assert all(len(pair["won"]) <= 1 for pair in data["splits"][0]["pairs"])  # type: ignore[index]


def test_nothing_has_run(empty: Path, params: Params) -> None:
    text = Structure(render(params)).text
    for command in (
        "dvc repro prepare",
        "dvc repro evaluate@gnn_encoder",
        "dvc repro compare",
        "dvc repro pair_similarity",
        "dvc repro pair_label",
        "dvc repro choose_queries",
        "dvc repro views_curve",
        "dvc repro evidence",
    ):
        assert command in text
    assert "dvc.lock not written" in text and "not in a git repository" in text


def test_one_branch_shows_what_it_has_and_names_the_rest(one_branch: Path, params: Params) -> None:
    text = Structure(render(params)).text
    assert "Test queries: GNN-encoder and what it is compared with" in text
    assert "+5.6 [+4.6, +6.6]" in text and "p = 0.04" in text
    assert "Costs have not been measured. Run dvc repro compare ." in text
    assert "No queries have been generated" in text and "No model has been trained" not in text


def test_one_system_alone_has_no_pair(prepared: Path, measure: Callable[..., None], params: Params) -> None:
    measure("dual_encoder")
    assert "Two systems have to be measured for this" in Structure(render(params)).text


def test_a_system_without_the_measure_is_left_out(one_branch: Path, params: Params) -> None:
    """It was measured before `evaluate.significance` named the measure, which its values do not have."""
    path = project.measured("retriever") / project.VALUES
    pl.read_parquet(path).with_columns(measure=pl.lit("R@5")).write_parquet(path)
    data = embedded(render(params))
    assert data["systems"] == ["dual_encoder", "gnn_encoder"]
    assert all(len(query["values"]) == 2 for query in data["splits"][0]["queries"])  # type: ignore[index]


def test_the_claim_and_what_was_chosen(one_branch: Path, params: Params) -> None:
    assert "Every setting tried" not in render(params)
    values = read_values(["retriever", "dual_encoder", "gnn_encoder"])
    write_claim(project.METRICS / "gnn_encoder", values, params.evaluate)
    half = Tried(setting={"weight": -0.25}, value=0.5)
    choice = Choice(measure="RR@10", queries=3, chosen=half, tried=[half])
    write_choice(project.RUNS / "label_prior", choice)
    page = render(params)
    # Mean reciprocal ranks: 11/18 of M_de and of the first retriever, 12/18 of GNN-encoder.
    assert page.count("<p>GNN-encoder against ") == 1 and "in RR@10: test +5.6 [" in page
    assert "Chosen on 3 dev queries" in page and "<td>weight -0.25</td>" in page and "Every setting tried" in page


def test_evidence_is_shown_as_it_is_found(one_branch: Path, params: Params) -> None:
    write_json(project.METRICS / "evidence" / "ablations.json", {"full": {"RR@10": 0.5}, "<b>": {"RR@10": 0.4875}})
    write_json(project.METRICS / "evidence" / "beta.json", {"0.5": {"RR@10": 0.25}})
    write_json(project.METRICS / "ceiling.json", {"test": {"share": 0.123}})
    (project.PLOTS / "evidence").mkdir(parents=True)
    (project.PLOTS / "evidence" / "figure_3.png").write_bytes(PIXEL)
    page = Structure(render(params))
    told = [
        "Ablations (GNN-encoder, Table 3) RR@10 full 0.5 <b> 0.4875",
        "(GNN-encoder, Figure 4), 0.5 RR@10 0.25",
        "ceiling, test share 0.123",
    ]
    places = [page.text.find(one) for one in told]
    assert -1 not in places and places == sorted(places)
    (picture,) = (attributes for tag, attributes in page.elements if tag == "img")
    assert picture["alt"] == "figure 3" and (picture["src"] or "").startswith("data:image/png;base64,")
    assert "tables and figures have not been made" not in page.text


def test_parameters_are_the_file(one_branch: Path, params: Params) -> None:
    text = Structure(render(params)).text
    assert "# The parameters of the experiment; `dvc exp run" in text


def test_relevant_passages_by_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    judged = pl.DataFrame({"qid": ["q", "q"], "pid": ["a#1", "b#0"], "grade": pl.Series([1, 0], dtype=pl.Int32)})
    write_table(project.qrels("test"), QRELS, [judged.to_arrow()])
    shown = pl.DataFrame({"qid": ["q", "q", "q", "other"], "pid": ["a#0", "a#1", "b#0", "a#1"]})
    assert queries._relevant("test", shown, "passage") == {"q": ["a#1"]}
    assert queries._relevant("test", shown, "document") == {"q": ["a#0", "a#1"]}
