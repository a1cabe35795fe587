"""scripts/check_results.py: what it runs, and that a folder that cannot be checked is refused before it is cloned."""

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from gnn_encoder.base.errors import UserError
from gnn_encoder.pipeline.params import load_params

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


def test_the_params_that_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend(ROOT / "scripts")
    from check_results import run_again

    ran = list[str]()
    monkeypatch.setattr(subprocess, "run", lambda command, **_: ran.append(command[-1]) or SimpleNamespace())
    run_again(Path(), tmp_path, None)
    assert (tmp_path / "params.yaml").read_text() == (ROOT / "params.yaml").read_text()
    mine = tmp_path / "mine #1"
    mine.mkdir()
    run_again(Path("results/tldr"), tmp_path, mine)
    kept = load_params(ROOT / "results/tldr/params.yaml")
    again = load_params(tmp_path / "params.yaml")
    assert again.data.path == str(mine)
    assert again == kept.model_copy(update={"data": kept.data.model_copy(update={"path": str(mine)})})
    assert ran == ["scripts/reproduce.sh"] * 2
