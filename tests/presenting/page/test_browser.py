"""The page in headless Chromium: its script works, and nothing is wider than a phone."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gnn_encoder.pipeline.params import load_params
from gnn_encoder.presenting.page.render import render

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here (Debian: apt-get install chromium)")

# Run in the page when it has loaded; its result is read back from the document.
PROBE = """
<script>
const errors = [];
window.addEventListener("error", (event) => errors.push(String(event.message)));
window.addEventListener("load", () => {{
  const result = (() => {{ {script} }})();
  const told = document.createElement("pre");
  told.id = "probe";
  told.textContent = JSON.stringify({{ result, errors, title: document.title }});
  document.body.append(told);
}});
</script>
</head>"""


def chromium(page: Path, *arguments: str) -> str:
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    command += [f"--user-data-dir={page.parent / 'profile'}", *arguments, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def probe(page: Path, script: str, *arguments: str) -> object:
    """What `script` returns in the page, after a look at what went wrong in it."""
    probed = page.with_name("probed.html")
    text = page.read_text(encoding="utf-8")
    probed.write_text(text.replace("</head>", PROBE.format(script=script), 1), encoding="utf-8")
    dumped = chromium(probed, "--dump-dom", *arguments)
    found = re.search(r'<pre id="probe">(.*?)</pre>', dumped, re.S)
    assert found, dumped[:2000]
    told = json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    assert told["errors"] == [] and told["title"] == "Query-informed dense passage retrieval: report"
    return told["result"]


@pytest.fixture
def page(one_branch: Path) -> Path:
    path = one_branch / "index.html"
    path.write_text(render(load_params()), encoding="utf-8")
    return path


READ = """
const texts = (selector) => [...document.querySelectorAll(selector)].map((one) => one.textContent.trim());
const state = () => ({ summary: texts("#summary")[0], won: texts("#won summary"), lost: texts("#lost summary"),
                       relevant: texts("#won .relevant small") });
const at = (id) => document.getElementById(id);
const choose = (id, name) => {
  at(id).value = [...at(id).options].find((option) => option.text === name).value;
  at(id).dispatchEvent(new Event("change"));
};
"""


def test_systems_are_chosen_and_swapped(page: Path) -> None:
    script = (
        READ
        + """
    const before = state();
    choose("second", "GNN-encoder");  // written by the script now, as it was without
    const same = state();
    at("swap").click();
    const swapped = state();
    choose("first", "first retriever (DPR)");
    choose("split", "dev");
    return { hidden: at("choice").hidden, before, same, swapped, other: state() };
    """
    )
    found = probe(page, script)
    assert isinstance(found, dict) and found["hidden"] is False
    squeezed = json.loads(re.sub(r"\\s+", " ", json.dumps(found)))
    assert squeezed["before"] == squeezed["same"]
    assert found["same"] == {
        "summary": "Test queries, GNN-encoder against M_de: 1 better, 1 worse, 1 the same.",
        "won": ["<script>alert('second')</script> 0.50 → 1.00"],
        "lost": ["third? 0.33 → 0.00"],
        "relevant": ["p1", "p1"],
    }
    assert found["swapped"]["summary"] == "Test queries, M_de against GNN-encoder: 1 better, 1 worse, 1 the same."
    assert found["swapped"]["won"] == ["third? 0.00 → 0.33"]
    assert found["other"]["summary"].startswith("Dev queries, M_de against first retriever (DPR): 2 better, 1 worse")


def test_queries_open_and_close_together(page: Path) -> None:
    script = (
        READ
        + """
    const open = () => document.querySelectorAll("#comparison details[open]").length;
    const counts = [open()];
    at("open").click(); counts.push(open());
    at("open").click(); counts.push(open());
    return counts;
    """
    )
    assert probe(page, script) == [0, 2, 0]


def test_what_is_closed_is_open_on_paper(page: Path) -> None:
    script = """
    const open = () => document.querySelectorAll("details:not([open])").length;
    const counts = [open() > 0];
    window.dispatchEvent(new Event("beforeprint")); counts.push(open());
    window.dispatchEvent(new Event("afterprint")); counts.push(open() > 0);
    return counts;
    """
    assert probe(page, script) == [True, 0, True]


@pytest.mark.parametrize("width", [500, 1280])  # Chromium's window is no narrower than 500
def test_nothing_sticks_out_of_the_window(page: Path, width: int) -> None:
    script = """
    document.querySelectorAll("details").forEach((part) => (part.open = true));
    const limit = document.documentElement.clientWidth;
    const scrolled = (one) => one.closest(".scroll, pre, .skip") !== null;
    const out = [...document.querySelectorAll("main *, nav *, header *")]
      .filter((one) => !scrolled(one) && !one.closest("svg *") && one.getBoundingClientRect().right > limit + 1)
      .map((one) => one.outerHTML.slice(0, 80));
    return { out, wide: document.documentElement.scrollWidth > limit };
    """
    assert probe(page, script, f"--window-size={width},900") == {"out": [], "wide": False}


def test_prints(page: Path, tmp_path: Path) -> None:
    pdf = tmp_path / "report.pdf"
    chromium(page, f"--print-to-pdf={pdf}", "--no-pdf-header-footer")
    assert pdf.read_bytes().startswith(b"%PDF") and pdf.stat().st_size > 10_000
