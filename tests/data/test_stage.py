"""The stage script: a user's mistake is one line and status 2, and what was prepared before stays."""

import shutil
import subprocess
import sys
from pathlib import Path

import yaml

from ..project import ROOT, declare

TINY = ROOT / "tests" / "tiny" / "beir"


def run_stage(project: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "stages" / "prepare.py")]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)


def test_bad_input_leaves_the_artifact_untouched(tmp_path: Path) -> None:
    params = yaml.safe_load((ROOT / "params.yaml").read_text())
    params["data"] |= {"source": "beir", "path": "mine"}
    declare(tmp_path)
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
    corpus = shutil.copytree(TINY, tmp_path / "mine") / "corpus.jsonl"
    assert run_stage(tmp_path).returncode == 0
    prepared = tmp_path / "data" / "prepared"
    before = {path: path.read_bytes() for path in prepared.rglob("*") if path.is_file()}
    assert prepared / "manifest.json" in before

    with corpus.open("a") as file:
        file.write('{"_id": "bread-7", "text": "Another one."}\n')
    result = run_stage(tmp_path)
    assert result.returncode == 2
    errors = [line for line in result.stderr.splitlines() if line]
    assert errors == [
        "error: mine/corpus.jsonl, line 121, passage id: 'bread-7' is also the id in line 1; give each row its own"
    ]
    assert {path: path.read_bytes() for path in prepared.rglob("*") if path.is_file()} == before
