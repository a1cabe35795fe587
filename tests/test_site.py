"""The documentation as a site: it builds strictly, and neither building nor reading it needs a network."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


diagrams, pages = load("site_diagrams"), load("site_pages")


def build(root: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Build the site of `root`. A proxy that refuses every connection stands for a machine without a network."""
    refused = dict.fromkeys(["http_proxy", "https_proxy"], "http://[::1]:9")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", **refused}
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_a_dead_link_stops_the_build(tmp_path: Path) -> None:
    folders = ("docs", "scripts", "benchmarks", "results")
    files = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "mkdocs.yml")
    for name in (*folders, *files):
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, tmp_path / name)
    for name in ("src", "configs", "LICENSE", "NOTICE"):
        (tmp_path / name).symlink_to(ROOT / name)
    with (tmp_path / "docs" / "python.md").open("a", encoding="utf-8") as page:
        page.write("[a](no-page.md) and [b](data.md#no-heading)\n")
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode == 1
    assert "docs/python.md: link to no-page.md, which does not exist" in done.stderr
    assert "contains a link 'data.md#no-heading'" in done.stderr
    assert done.stderr.count("WARNING") == 3  # the first is seen by MkDocs too


class Loaded(HTMLParser):
    """Collects what a browser loads with a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag in ("script", "img", "iframe", "source") and "src" in values:
            self.found.append(values["src"])
        if tag == "link" and values.get("rel") != "canonical":
            self.found.append(values["href"])


def test_a_page_loads_nothing_from_the_network(site: Path) -> None:
    files = sorted(site.rglob("*.html"))
    assert len(files) > 25
    for file in files:
        parser = Loaded()
        parser.feed(file.read_text(encoding="utf-8"))
        assert parser.found and not [url for url in parser.found if re.match(r"(https?:)?//", url)], file
        # The theme would load Mermaid for such a block, and MathJax for such a span.
        assert 'class="mermaid"' not in file.read_text(encoding="utf-8")
    for style in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?https?:", style.read_text(encoding="utf-8")), style


def test_readme_is_the_first_page_and_its_links_lead_on(site: Path) -> None:
    page = (site / "index.html").read_text(encoding="utf-8")
    assert 'href="evidence.html#what-came-out"' in page and 'href="comparisons.html"' in page
    assert 'href="benchmarks.html"' in page
    assert "LICENSE" in page and 'href="LICENSE"' not in page
    assert 'href="index.html#your-own-data"' in (site / "data.html").read_text(encoding="utf-8")


def test_flowcharts_are_drawn(site: Path) -> None:
    page = (site / "pipeline.html").read_text(encoding="utf-8")
    assert page.count('<div class="flowchart">') == 2 and "<b>train M_de</b>" in page


def test_the_reference_is_built_from_docstrings(site: Path) -> None:
    page = (site / "api" / "searching.html").read_text(encoding="utf-8")
    assert 'id="gnn_encoder.searcher.Searcher.search"' in page and "Find the <code>k</code> best passages" in page
    assert 'id="gnn_encoder.exporting.beir.BeirSearch"' in (site / "api" / "exporting.html").read_text(encoding="utf-8")


LINES = ['a["<b>one</b><br/>first"]', 'b["two"]', 'c["three"]', "a --> b --> c", "a --> c"]


def test_a_flowchart_is_read() -> None:
    labels, arrows = diagrams.parse(LINES)
    assert labels == {"a": "<b>one</b><br/>first", "b": "two", "c": "three"}
    assert arrows == [("a", "b"), ("b", "c"), ("a", "c")]


@pytest.mark.parametrize("line", ["a --> x", "subgraph", "a -.-> b"])
def test_what_cannot_be_drawn_is_an_error(line: str) -> None:
    with pytest.raises(ValueError, match="neither a box nor arrows"):
        diagrams.parse([*LINES, line])


def test_boxes_stand_behind_what_leads_to_them() -> None:
    names, arrows = list("abcd"), [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("a", "d")]
    down, right = (diagrams.arrange(direction, names, arrows) for direction in ("TD", "LR"))
    assert down == {"a": (122, 0), "b": (0, 92), "c": (244, 92), "d": (122, 184)}
    assert right == {"a": (0, 40), "b": (264, 0), "c": (264, 80), "d": (528, 40)}


def test_an_arrow_swings_past_the_boxes_between() -> None:
    drawn = diagrams.draw("TD", LINES)
    paths = re.findall(r'<path d="M(\d+) (\d+)C(\d+)', drawn)
    assert paths == [("110", "62", "110"), ("110", "154", "110"), ("220", "31", "272")]  # the last leaves to the right
    assert 'aria-label=" one  first; two; three"' in drawn


@pytest.mark.parametrize(
    ("source", "name", "link", "expected"),
    [
        ("README.md", "index.md", "[a](docs/data.md#x)", "[a](data.md#x)"),
        ("README.md", "index.md", "[b](benchmarks/README.md)", "[b](benchmarks.md)"),
        ("README.md", "index.md", "[NOTICE](NOTICE)", "NOTICE"),
        ("README.md", "index.md", "[Apache License](LICENSE)", "Apache License (`LICENSE`)"),
        ("docs/data.md", "data.md", "[README](../README.md#your-own-data)", "[README](index.md#your-own-data)"),
        ("docs/data.md", "data.md", "[x](evaluation.md) and [y](#z)", "[x](evaluation.md) and [y](#z)"),
        ("docs/api/graph.md", "api/graph.md", "[p](../papers.md)", "[p](../papers.md)"),
        ("benchmarks/README.md", "benchmarks.md", "[c](../docs/costs.md)", "[c](costs.md)"),
        ("README.md", "index.md", "[d](https://dvc.org)", "[d](https://dvc.org)"),
    ],
)
def test_links_lead_where_they_lead_in_the_repository(source: str, name: str, link: str, expected: str) -> None:
    assert pages._turned(link, source, name, ROOT) == expected


def test_a_dead_link_is_a_warning_and_so_an_error_of_a_strict_build(caplog: pytest.LogCaptureFixture) -> None:
    pages._turned("[a](configs/none.yaml)", "README.md", "index.md", ROOT)
    assert caplog.messages == ["README.md: link to configs/none.yaml, which does not exist"]
