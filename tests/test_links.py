"""Links between the pages lead somewhere: to a file that exists, and to a heading that it has."""

import re
from pathlib import Path

import pytest

from .project import ROOT

PAGES = [page for top in ("*.md", "docs/**/*.md", "results/**/*.md", "benchmarks/**/*.md") for page in ROOT.glob(top)]
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
        lives = re.match(r"[a-z]+:", link) or (target.exists() and (not anchor or anchor in anchors(target)))
        found += [] if lives else [link]
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    assert dead(page) == []
