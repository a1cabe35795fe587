"""The tables of README.md and docs/results.md are what scripts/results.py makes of the committed metrics."""

import pytest
import results

from .project import ROOT


def test_the_documents_have_the_committed_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for path, mark in results.TABLES:
        assert results.filled(path, mark) == path.read_text(encoding="utf-8")
