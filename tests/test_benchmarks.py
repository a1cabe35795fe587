"""Benchmarks whose measuring needs no more than a built project run over a tiny one."""

import json
import runpy
import sys
from pathlib import Path

import pytest

from .project import ROOT


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options"),
    [("own_vectors", []), pytest.param("serving", ["--seconds", "0.1"], marks=pytest.mark.long)],
)
def test_a_benchmark_writes_its_record(
    name: str, options: list[str], built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(built)
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.setattr(sys, "argv", [name, "--quick", *options, "--output", str(tmp_path / "record.json")])
    runpy.run_path(str(ROOT / "benchmarks" / f"{name}.py"), run_name="__main__")
    record = json.loads((tmp_path / "record.json").read_text())
    assert record["benchmark"] == name and record["verdict"]["measured"] and record["verdict"]["met"] in (True, False)
