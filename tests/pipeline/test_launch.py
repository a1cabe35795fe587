"""How a stage is started: launch.yaml, independent shards, and ranks that do not see the same files."""

import sys
from pathlib import Path

import pytest
import yaml

from gnn_encoder.base import distributed
from gnn_encoder.base.errors import UserError, report_errors
from gnn_encoder.pipeline.launch import launched, read_launch, split_arguments
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.stage import artifact, find_stage

from ..project import ROOT

TARGET = Path("data/thing")


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    stage = {"cmd": "scripts/python stages/thing.py", "deps": [], "params": ["seed"], "outs": [str(TARGET)]}
    Path("dvc.yaml").write_text(yaml.safe_dump({"stages": {"thing": stage}}))
    for name in ("LOCAL_RANK", "GNN_ENCODER_STARTED"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def call(params: Params, shard: tuple[int, int] | None = None, *, killed: bool = False) -> None:
    """Do a shard's part, or finish."""
    with artifact(find_stage("thing", []), params, [], shard) as stage:
        if killed:
            raise KeyboardInterrupt
        (stage.scratch / "-".join(map(str, shard or ("finished",)))).touch()


def test_a_stage_of_shards_is_finished_when_all_have_ended(root: Path, tiny_params: Params) -> None:
    call(tiny_params, (2, 3))
    with pytest.raises(KeyboardInterrupt):
        call(tiny_params, (1, 3), killed=True)
    call(tiny_params, (3, 3))
    wrong = r"python stages/thing.py: 1 of 3 shards have not ended, the first of them 1/3; run `python stages/thing.py "
    with pytest.raises(UserError, match=wrong + r"--shard 1/3`; `--shard 1/1` does what is left of all$"):
        call(tiny_params)
    assert not TARGET.exists()
    call(tiny_params, (1, 3))
    call(tiny_params)
    assert {path.name for path in TARGET.iterdir()} == {"1-3", "2-3", "3-3", "finished", "manifest.json"}


def test_one_shard_of_one_stands_for_all(tiny_params: Params) -> None:
    call(tiny_params, (2, 3))
    call(tiny_params, (1, 1))
    call(tiny_params)
    assert {path.name for path in TARGET.iterdir()} == {"2-3", "1-1", "finished", "manifest.json"}


def test_shards_share_the_windows_whatever_is_done() -> None:
    def windows(shard: tuple[int, int], waiting: list[int]) -> list[int]:
        with distributed.independent(shard):
            return list(distributed.handed_out(waiting))

    assert [windows((number, 3), [0, 1, 2, 3, 4, 5, 6]) for number in (1, 2, 3)] == [[0, 3, 6], [1, 4], [2, 5]]
    assert windows((2, 3), [3, 4, 5]) == [4]
    assert list(distributed.handed_out([3, 4])) == [3, 4]


def test_the_shard_among_the_arguments() -> None:
    assert split_arguments(["gnn_encoder"]) == (["gnn_encoder"], None)
    assert split_arguments(["gnn_encoder", "--shard", "3/64"]) == (["gnn_encoder"], (3, 64))
    for told in ("3", "0/4", "5/4", "1/0", ""):
        with pytest.raises(UserError, match=f"--shard is '{told}': must be I/N with I from 1 to N"):
            split_arguments(["--shard", *([told] if told else [])])


def test_another_process_sees_other_files(tiny_params: Params, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "rank", lambda: 1)
    with pytest.raises(UserError, match=r"process 1 on .* does not see what the first process has made there: "):
        call(tiny_params)


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        ("gpus: 8", "gpus is not a parameter (value 8); remove it or correct its name"),
        ("processes: 0", "processes is 0: "),
        ("restarts: -1", "restarts is -1: "),
        ("eight", "the file is 'eight': must be lines of `key: value`"),
        ("a: b: c", "not valid YAML"),
    ],
)
def test_a_mistake_in_launch_yaml(root: Path, content: str, rule: str) -> None:
    (root / "launch.yaml").write_text(content)
    with pytest.raises(UserError) as caught:
        read_launch()
    assert str(caught.value).startswith(f"launch.yaml: {rule}") and "\n" not in str(caught.value)


def test_the_defaults_are_those_of_the_file(root: Path) -> None:
    assert read_launch(ROOT / "launch.yaml") == read_launch(root / "launch.yaml")


def test_a_command_starts_the_stage(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["stages/thing.py", "a key"])
    (root / "launch.yaml").write_text('command: printf \'%s,\' "$PYTHON" "$GNN_ENCODER_STARTED" >told')
    assert launched() == 0
    assert (root / "told").read_text() == f"{sys.executable},1,stages/thing.py,a key,"


def test_what_was_started_starts_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "launch.yaml").write_text("processes: 2")
    for name in ("LOCAL_RANK", "GNN_ENCODER_STARTED"):
        with monkeypatch.context() as patch:
            patch.setenv(name, "1")
            assert launched() is None


def test_one_process_of_a_machine_tells_a_mistake(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def end(rank: int, error: Exception, attempt: int = 0) -> int:
        folder = root / f"attempt_{attempt}" / str(rank)
        folder.mkdir(parents=True, exist_ok=True)
        monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(folder / "error.json"))
        with pytest.raises(SystemExit) as caught, report_errors():
            if attempt == 0 and rank == 2:
                (root / "told").touch()
            raise error
        return int(caught.value.code or 0)

    assert end(2, RuntimeError("connection closed by peer")) == 2, "another process has told why"
    (root / "told").unlink()
    assert end(1, UserError("a.txt: wrong")) == 2
    assert end(0, UserError("a.txt: wrong")) == 2
    assert end(0, RuntimeError("not reached"), attempt=1) == 2, "what is started again ends at once"
    assert capsys.readouterr().err == "error: a.txt: wrong\n"
