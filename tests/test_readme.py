"""README's table is what scripts/update_docs.py makes of the committed metrics."""

from pathlib import Path

import pytest

from .project import ROOT


def test_readme_has_the_committed_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    monkeypatch.chdir(ROOT)
    from update_docs import markdown, overview

    assert markdown(overview()) in Path("README.md").read_text(encoding="utf-8")
