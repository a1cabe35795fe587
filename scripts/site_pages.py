"""MkDocs hook: pages that stand outside docs/ join the site, and links lead where they lead in the repository.

A link to a file that is no page becomes the file's name, since a site that is read offline has no repository beside it.
"""

import logging
import os
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

log = logging.getLogger("mkdocs.hooks.site_pages")

OUTSIDE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/README.md": "benchmarks.md",
    "results/insuranceqa/README.md": "insuranceqa.md",
    "results/comparisons/README.md": "comparisons.md",
}
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]+)\]\((?P<target>[^)\s]+)\)")
EXTERNAL = re.compile(r"[a-z]+:|#")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from outside."""
    root = Path(config.config_file_path).parent
    for source, name in OUTSIDE.items():
        files.append(File.generated(config, name, content=(root / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, **_: Any) -> str:
    """Turn the links of a page, outside of its code."""
    root, name = Path(config.config_file_path).parent, page.file.src_uri
    source = next((path for path, page_name in OUTSIDE.items() if page_name == name), f"docs/{name}")
    parts, last = [], 0
    for fence in FENCE.finditer(markdown):
        parts += [_turned(markdown[last : fence.start()], source, name, root), fence[0]]
        last = fence.end()
    return "".join([*parts, _turned(markdown[last:], source, name, root)])


def _turned(text: str, source: str, name: str, root: Path) -> str:
    def turn(link: re.Match[str]) -> str:
        target, _, anchor = link["target"].partition("#")
        if EXTERNAL.match(link["target"]):
            return link[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if not (root / path).exists():
            log.warning("%s: link to %s, which does not exist", source, link["target"])
        page = OUTSIDE.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
        if page is None:
            return link["text"] if path in link["text"] else f"{link['text']} (`{path}`)"
        relative = os.path.relpath(page, posixpath.dirname(name) or ".").replace(os.sep, "/")
        return f"{link['picture']}[{link['text']}]({relative}{'#' + anchor if anchor else ''})"

    return LINK.sub(turn, text)
