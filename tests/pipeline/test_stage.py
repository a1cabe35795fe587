"""How a stage's artifact is built: whole, kept over an error, keyed by what decides it; and how errors are told."""

import csv
import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path

import pytest
import yaml
from safetensors import SafetensorError

from gnn_encoder.base import distributed
from gnn_encoder.base.errors import UserError, report_errors
from gnn_encoder.base.files import code_fingerprint, publish, write_json
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.stage import Stage, artifact, find_stage

from ..project import ROOT
from ..two_processes import run_two
from . import two_ranks

TARGET = Path("data/thing")
PIPELINE = {
    "thing": {
        "cmd": "scripts/python stages/thing.py",
        "deps": ["input.txt", "stages/thing.py", "src/gnn_encoder/base"],
        "params": ["seed", "mgt.beta"],
        "outs": ["data/thing"],
        "metrics": [{"metrics/thing/found.json": {"cache": False}}],
        "plots": ["plots/thing/drawn.csv"],
    },
    "each": {
        "foreach": {"one": {"views": 1}, "two": {"views": 2}},
        "do": {
            "cmd": "scripts/python stages/each.py ${key}",
            "deps": ["input.txt", "stages/each.py"],
            "params": ["seed"],
            "outs": ["data/each/${key}"],
        },
    },
    "several": {"cmd": "scripts/python stages/several.py", "deps": ["input.txt"], "outs": ["data/a", "data/b/c"]},
}


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("input.txt").write_text("input")
    Path("dvc.yaml").write_text(yaml.safe_dump({"stages": PIPELINE}))
    Path("params.yaml").write_bytes((ROOT / "params.yaml").read_bytes())
    return tmp_path


@pytest.fixture
def begin(tiny_params: Params) -> "Begin":
    return Begin(tiny_params)


class Begin:
    """Begins a stage's artifact with another seed: `with begin(k=1) as stage`."""

    def __init__(self, params: Params) -> None:
        self.params = params

    @contextmanager
    def __call__(self, name: str = "thing", *key: str, k: int, own_files: tuple[Path, ...] = ()) -> Iterator[Stage]:
        params = self.params.model_copy(update={"seed": k})
        with artifact(find_stage(name, list(key)), params, list(own_files)) as stage:
            yield stage

    def build(self, text: str, k: int) -> Path:
        with self(k=k) as stage:
            (stage.scratch / "a.txt").write_text(text)
        return stage.scratch

    def interrupted(self, text: str, k: int) -> Path:
        with pytest.raises(KeyboardInterrupt), self(k=k) as stage:
            (stage.scratch / "a.txt").write_text(text)
            (stage.work / "last").write_text("step 3")
            raise KeyboardInterrupt
        return stage.scratch


def test_is_published_whole_with_a_manifest_and_without_work(root: Path, begin: Begin) -> None:
    with begin(k=1) as stage:
        (stage.scratch / "a.txt").write_text("done")
        (stage.scratch / ".work" / "last").write_text("only for resuming")
        assert not TARGET.exists()
    assert sorted(path.name for path in TARGET.iterdir()) == ["a.txt", "manifest.json"]
    assert not [path for path in (root / ".scratch").rglob("*") if path.is_file()]


def test_other_code_that_makes_the_same_leaves_the_same_bytes(monkeypatch: pytest.MonkeyPatch, begin: Begin) -> None:
    begin.build("one", k=1)
    before = {path: path.read_bytes() for path in TARGET.iterdir()}
    monkeypatch.setattr("gnn_encoder.pipeline.stage.code_fingerprint", lambda code: "of other code")
    begin.build("one", k=1)
    assert {path: path.read_bytes() for path in TARGET.iterdir()} == before
    begin.build("one", k=2)
    assert {path: path.read_bytes() for path in TARGET.iterdir()} != before


def test_an_error_leaves_the_target_and_keeps_the_scratch(root: Path, begin: Begin) -> None:
    begin.build("old", k=1)
    before = {path: path.read_bytes() for path in TARGET.iterdir()}
    scratch = begin.interrupted("half", k=2)
    assert {path: path.read_bytes() for path in TARGET.iterdir()} == before
    with begin(k=2) as again:
        assert again.scratch == scratch
        assert (again.scratch / "a.txt").read_text() == "half"
        assert (again.work / "last").read_text() == "step 3"
    assert (TARGET / "a.txt").read_text() == "half"


def test_a_write_that_was_killed_leaves_nothing_in_the_artifact(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(source: Path, target: Path) -> None:
        raise KeyboardInterrupt

    begin.build("done", k=1)
    before = {path: path.read_bytes() for path in TARGET.iterdir()}
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt), begin(k=1) as stage:
        patch.setattr("gnn_encoder.base.files.publish", killed)
        write_json(stage.scratch / "part" / "found.json", 1)
    assert list((stage.scratch / "part").iterdir())
    begin.build("done", k=1)
    assert {path: path.read_bytes() for path in TARGET.iterdir() if path.is_file()} == before


@pytest.mark.parametrize("after", [False, True], ids=["before the artifact moves", "after it has moved"])
def test_a_kill_in_the_last_step_keeps_what_resuming_needs(
    root: Path, monkeypatch: pytest.MonkeyPatch, after: bool, begin: Begin
) -> None:
    def killed(source: Path, target: Path) -> None:
        if after:
            publish(source, target)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("gnn_encoder.pipeline.stage.publish", killed)
        with begin(k=1) as stage:
            (stage.work / "last").write_text("the last step")
            write_found(stage, 1)
    with begin(k=1) as again:
        assert again.scratch == stage.scratch
        assert (again.work / "last").read_text() == "the last step"
        write_found(again, 2)
    assert (root / "metrics" / "thing" / "found.json").read_text() == "2"
    assert [path.name for path in TARGET.iterdir()] == ["manifest.json"]
    assert not (root / ".scratch" / "thing").exists()


def test_other_params_or_inputs_begin_anew_and_remove_what_was_left(begin: Begin) -> None:
    first = begin.interrupted("half", k=1)
    other = begin.interrupted("half", k=2)
    assert other != first and [path.name for path in other.parent.iterdir()] == [other.name]
    Path("input.txt").write_text("other")
    third = begin.interrupted("half", k=2)
    assert third not in (first, other) and [path.name for path in third.parent.iterdir()] == [third.name]
    with begin(k=3) as stage:
        assert list(stage.work.iterdir()) == []
        assert not (stage.scratch / "a.txt").exists()


def test_code_that_is_not_declared_decides_nothing(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    """A changed docstring in `serving` does not throw away a training that was begun; one in `core` does."""
    code = {
        "src/gnn_encoder/base/a.py": '"""One."""',
        "src/gnn_encoder/serving/b.py": '"""Two."""',
        "stages/thing.py": "",
    }
    for name, text in code.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    monkeypatch.setattr("gnn_encoder.pipeline.stage.code_fingerprint", partial(code_fingerprint, root=Path()))
    first = begin.interrupted("half", k=1)
    Path("src/gnn_encoder/serving/b.py").write_text('"""Two."""')
    (Path("src/gnn_encoder/base/__pycache__")).mkdir()
    (Path("src/gnn_encoder/base/__pycache__/a.pyc")).write_text("compiled")
    assert begin.interrupted("half", k=1) == first
    for name in ("src/gnn_encoder/base/a.py", "stages/thing.py"):
        Path(name).write_text('"""Two."""')
        assert (other := begin.interrupted("half", k=1)) != first
        first = other


def test_several_outputs(root: Path, begin: Begin) -> None:
    with begin("several", k=1) as stage:
        for output in stage.outputs:
            (stage.unfinished(output) / "a.txt").write_text(output.name)
        assert not (root / "data").exists()
        with pytest.raises(ValueError):
            _ = stage.scratch
    assert [(root / name / "a.txt").read_text() for name in ("data/a", "data/b/c")] == ["a", "c"]
    assert {path.name for path in (root / "data/b/c").iterdir()} == {"a.txt", "manifest.json"}


def test_a_part_is_made_once(begin: Begin) -> None:
    made = []

    def make(folder: Path) -> None:
        made.append(folder)
        (folder / ".work").mkdir(parents=True)
        (folder / "model").write_text("trained")

    for error in (KeyboardInterrupt, None):
        with pytest.raises(error) if error else nullcontext(), begin(k=1) as stage:
            assert (stage.once("part", make) / "model").read_text() == "trained"
            if error:
                raise error
    assert len(made) == 1 and [path.name for path in (TARGET / "part").iterdir()] == ["model"]


def test_a_missing_input_is_named(root: Path, begin: Begin) -> None:
    (root / "input.txt").unlink()
    with (
        pytest.raises(UserError, match=r"^input.txt: not built yet"),
        begin(k=1),
    ):
        pass
    assert not TARGET.exists() and not Path(".scratch").exists()


def test_inputs_are_what_is_declared_but_code_and_the_users_files(root: Path, begin: Begin) -> None:
    own = root / "own.txt"
    with pytest.raises(UserError, match=r"own.txt: no such file"), begin(k=1, own_files=(own,)):
        pass
    own.write_text("mine")
    scratches = []
    for text in ("mine", "mine", "other"):
        own.write_text(text)
        with pytest.raises(KeyboardInterrupt), begin(k=1, own_files=(own,)) as stage:
            scratches.append(stage.scratch)
            raise KeyboardInterrupt
        assert stage.inputs == [Path("input.txt"), own]
    assert scratches[0] == scratches[1] != scratches[2]


def test_each_key_has_its_item_and_its_artifact(root: Path, begin: Begin) -> None:
    seen = []
    for key, item in (("one", {"views": 1}), ("two", {"views": 2})):
        with begin("each", key, k=1) as stage:
            (stage.scratch / "a.txt").write_text(key)
            seen.append(stage.scratch.parts)
        assert (stage.key, stage.item) == (key, item)
        assert (root / "data" / "each" / key / "a.txt").read_text() == key
    assert [parts[:2] for parts in seen] == [(".scratch", "each-one"), (".scratch", "each-two")]


def test_another_item_begins_anew(root: Path, begin: Begin) -> None:
    scratches = []
    for views in (1, 3):
        changed = PIPELINE | {"each": PIPELINE["each"] | {"foreach": {"one": {"views": views}}}}
        Path("dvc.yaml").write_text(yaml.safe_dump({"stages": changed}))
        with pytest.raises(KeyboardInterrupt), begin("each", "one", k=1) as stage:
            scratches.append(stage.scratch)
            raise KeyboardInterrupt
    assert scratches[0] != scratches[1]


def test_a_parameter_that_is_not_declared_decides_nothing(begin: Begin) -> None:
    scratch = begin.interrupted("half", k=1)
    layers = begin.params.mgt.model_copy(update={"layers": 1})
    beta = begin.params.mgt.model_copy(update={"beta": 0.5})
    others = [Begin(begin.params.model_copy(update={"mgt": mgt})).interrupted("half", k=1) for mgt in (layers, beta)]
    assert others[0] == scratch != others[1]


def write_found(stage: Stage, value: int) -> None:
    for folder in (stage.metrics, stage.plots):
        folder.mkdir(exist_ok=True)
    (stage.metrics / "found.json").write_text(json.dumps(value))
    with (stage.plots / "drawn.csv").open("w", newline="") as file:
        csv.writer(file).writerow(["x", value])


def test_metrics_and_plots_land_where_they_are_declared(root: Path, begin: Begin) -> None:
    (root / "metrics" / "thing").mkdir(parents=True)
    (root / "metrics" / "thing" / "mine.txt").write_text("kept")
    for value in (1, 2):
        with begin(k=1) as stage:
            write_found(stage, value)
            assert (root / "metrics" / "thing" / "found.json").exists() == (value == 2)
        assert json.loads((root / "metrics" / "thing" / "found.json").read_text()) == value
        assert (root / "plots" / "thing" / "drawn.csv").read_text().strip() == f"x,{value}"
    assert (root / "metrics" / "thing" / "mine.txt").read_text() == "kept"
    assert [path.name for path in TARGET.iterdir()] == ["manifest.json"], "they are no part of the artifact"


@pytest.mark.parametrize(("mode", "ranks"), [("once", ["0 of 1"]), ("shared", ["0 of 2", "1 of 2"])])
def test_two_processes(root: Path, mode: str, ranks: list[str]) -> None:
    """What is not shared runs on the first rank, whose barriers are its own; both see the artifact in its place."""
    stage = {"cmd": f"scripts/python stages/{mode}.py", "deps": ["input.txt"], "outs": ["data/thing"]}
    Path("dvc.yaml").write_text(yaml.safe_dump({"stages": {mode: stage}}))
    made = Path("data/thing/made.txt")
    (root / "order").write_text(f"{mode} {made}")
    run_two(Path(two_ranks.__file__), root)
    assert [(root / f"ran-{rank}").read_text() for rank in range(2) if (root / f"ran-{rank}").exists()] == ranks
    assert [(root / f"after-{rank}").read_text() for rank in range(2)] == ["made by rank 0"] * 2
    assert {path.name for path in made.parent.iterdir()} - {"manifest.json"} == {"made.txt"}


def told(error: BaseException, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as caught, report_errors():
        raise error
    assert caught.value.code == 2
    text = capsys.readouterr().err
    assert text.count("\n") == 1 and text.endswith("\n")
    return text


def test_a_users_mistake_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(UserError("a.txt: wrong"), capsys) == "error: a.txt: wrong\n"


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "data/a.npy"),
        OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)),
        # What numpy, polars, safetensors and faiss raise on a full disk: no errno.
        OSError("1000000 requested and 131056 written"),
        OSError("No space left on device (os error 28)"),
        SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
        RuntimeError("Error in void faiss::write_index(...): write error: 1 != 2 (No space left on device)"),
    ],
)
def test_a_full_disk_is_one_line(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    text = told(error, capsys)
    assert text.startswith("error: no space left on the disk")
    assert "existing artifacts are untouched: free space" in text
    if isinstance(error, OSError) and error.filename:
        assert "while writing data/a.npy" in text


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to\nx")]
)
def test_too_little_memory_is_one_line(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    assert "out of memory" in (text := told(error, capsys)) and "lower encoder.batch_tokens" in text


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            PermissionError(errno.EACCES, "Permission denied", "data/a.npy"),
            "data/a.npy: Permission denied; change its permissions or its owner",
        ),
        (
            PermissionError(errno.EACCES, "Failed to open local file 'a'.\nDetail: Permission denied"),  # as Arrow does
            "[Errno 13] Failed to open local file 'a'. Detail: Permission denied; change its permissions or its owner",
        ),
        (
            IsADirectoryError(errno.EISDIR, "Is a directory", "run.trec"),
            "run.trec: Is a directory; a file must be there",
        ),
        (OSError(errno.EIO, "Input/output error", "x"), "x: Input/output error; correct that, then run again"),
    ],
)
def test_a_file_that_does_not_open_is_one_line(error: OSError, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(error, capsys) == f"error: {line}\n"


@pytest.mark.parametrize("error", [OSError(errno.EIO, "nobody's file"), RuntimeError("a bug"), KeyError("x")])
def test_what_is_no_users_mistake_keeps_its_traceback(error: Exception) -> None:
    with pytest.raises(type(error)), report_errors():
        raise error


def test_another_process_sees_other_files(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "rank", lambda: 1)
    with pytest.raises(UserError, match=r"process 1 on .* does not see what the first process has made there: "):
        begin.build("x", k=1)


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
