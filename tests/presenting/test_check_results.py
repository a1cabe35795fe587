"""scripts/check_results.py: a folder that cannot be checked is refused before anything is cloned."""

from pathlib import Path

import pytest

from gnn_encoder.core.errors import UserError

from ..project import ROOT


def test_what_cannot_be_checked_is_refused_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend(ROOT / "scripts")
    from check_results import run_again

    for kept, path, told in (
        ("results/insuranceqa-papers", None, "dev.json: no such file"),
        ("results/tldr", None, "name it with --path"),
        ("results/tldr", tmp_path / "none", "no such folder"),
        (".", tmp_path, "has no folder for --path"),
    ):
        with pytest.raises(UserError, match=told):
            run_again(Path(kept), tmp_path / "clone", path)
    assert not (tmp_path / "clone").exists()
