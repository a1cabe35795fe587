"""Links between the pages lead somewhere: to a file that exists, and to a heading that it has."""

import re
from pathlib import Path

import pytest

from .project import ROOT

PAGES = sorted(
    [*ROOT.glob("*.md"), *(page for top in ("docs", "results", "benchmarks") for page in (ROOT / top).rglob("*.md"))]
)
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead(page: Path) -> list[str]:
    """The links of a page, outside of its code, that lead nowhere."""
    found = []
    for link in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if re.match(r"[a-z]+:", link):
            continue
        if not target.exists() or (anchor and anchor not in anchors(target)):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    assert dead(page) == []


def test_a_dead_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One `heading`, two\n[a](no.md) [b](#no) [c](#one-heading-two) [d](https://x.org)\n```\n[e](f.md)\n```\n"
    )
    assert dead(page) == ["no.md", "#no"]
