"""How a stage's artifact is built: whole, kept over an error, keyed by what decides it; and how errors are told."""

import errno
import json
import os
from pathlib import Path

import pytest
from safetensors import SafetensorError

from gnn_encoder.core.errors import UserError
from gnn_encoder.core.stage import TIMES, output, report_errors
from gnn_encoder.core.storage.atomic import publish
from gnn_encoder.core.storage.fingerprint import fingerprint


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("input.txt").write_text("input")
    return tmp_path


TARGET = Path("data/thing")
INPUTS = [Path("input.txt")]


def build(text: str, **params: object) -> Path:
    with output(TARGET, INPUTS, params) as scratch:
        (scratch / "a.txt").write_text(text)
    return scratch


def interrupted(text: str, **params: object) -> Path:
    with pytest.raises(KeyboardInterrupt), output(TARGET, INPUTS, params) as scratch:
        (scratch / "a.txt").write_text(text)
        (scratch / ".work" / "last").write_text("step 3")
        raise KeyboardInterrupt
    return scratch


def test_is_published_whole_with_a_manifest_and_without_work(root: Path) -> None:
    with output(TARGET, INPUTS, {"k": 1}) as scratch:
        (scratch / "a.txt").write_text("done")
        (scratch / ".work" / "last").write_text("only for resuming")
        assert not TARGET.exists()
    assert sorted(path.name for path in TARGET.iterdir()) == ["a.txt", "manifest.json"]
    assert [path.name for path in (root / ".scratch").rglob("*") if path.is_file()] == ["thing.json"], "its time"


def test_how_long_it_took_is_recorded_beside_the_artifacts() -> None:
    build("one", k=1)
    found = json.loads((TIMES / "thing.json").read_text())
    assert 0 <= found["seconds"] < 60 and found["inputs"] == ["input.txt"]
    interrupted("two", k=2)
    build("two", k=2)
    assert json.loads((TIMES / "thing.json").read_text())["seconds"] is None


def test_other_code_that_makes_the_same_leaves_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    build("one", k=1)
    before = {path: path.read_bytes() for path in TARGET.iterdir()}
    monkeypatch.setattr("gnn_encoder.core.stage.code_fingerprint", lambda: "of other code")
    build("one", k=1)
    assert {path: path.read_bytes() for path in TARGET.iterdir()} == before
    build("one", k=2)
    assert {path: path.read_bytes() for path in TARGET.iterdir()} != before


def test_what_came_out_otherwise_does_not_pass_for_the_former() -> None:
    """A cache of what an artifact holds, kept under its fingerprint, would else outlive a change of code."""
    build("one", k=1)
    before = fingerprint(TARGET)
    build("two", k=1)
    assert fingerprint(TARGET) != before
    build("one", k=1)
    assert fingerprint(TARGET) == before


def test_replaces_the_old_artifact(root: Path) -> None:
    build("one", k=1)
    (TARGET / "left.txt").write_text("of the old one")
    build("two", k=2)
    assert (TARGET / "a.txt").read_text() == "two"
    assert not (TARGET / "left.txt").exists()


def test_an_error_leaves_the_target_and_keeps_the_scratch(root: Path) -> None:
    build("old", k=1)
    before = {path: path.read_bytes() for path in TARGET.iterdir()}
    scratch = interrupted("half", k=2)
    assert {path: path.read_bytes() for path in TARGET.iterdir()} == before
    with output(TARGET, INPUTS, {"k": 2}) as again:
        assert again == scratch
        assert (again / "a.txt").read_text() == "half"
        assert (again / ".work" / "last").read_text() == "step 3"
    assert (TARGET / "a.txt").read_text() == "half"


@pytest.mark.parametrize("after", [False, True], ids=["before the artifact moves", "after it has moved"])
def test_a_kill_in_the_last_step_keeps_what_resuming_needs(
    root: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    def killed(source: Path, target: Path) -> None:
        if after:
            publish(source, target)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("gnn_encoder.core.stage.publish", killed)
        with output(TARGET, INPUTS, {"k": 1}) as scratch:
            (scratch / ".work" / "last").write_text("the last step")
    with output(TARGET, INPUTS, {"k": 1}) as again:
        assert again == scratch
        assert (again / ".work" / "last").read_text() == "the last step"
    assert [path.name for path in TARGET.iterdir()] == ["manifest.json"]
    assert not (root / ".scratch" / "thing").exists()


def test_other_params_or_inputs_begin_anew(root: Path) -> None:
    first = interrupted("half", k=1)
    other = interrupted("half", k=2)
    Path("input.txt").write_text("other")
    third = interrupted("half", k=1)
    assert len({first, other, third}) == 3
    with output(TARGET, INPUTS, {"k": 3}) as scratch:
        assert list((scratch / ".work").iterdir()) == []
        assert not (scratch / "a.txt").exists()


def test_manifest_names_the_parameters_and_differs_with_them(root: Path) -> None:
    build("same", k=1)
    one = (TARGET / "manifest.json").read_text()
    build("same", k=2)
    two = (TARGET / "manifest.json").read_text()
    assert '"k": 1' in one and '"k": 2' in two
    build("same", k=1)
    assert (TARGET / "manifest.json").read_text() == one


def test_a_missing_input_is_named(root: Path) -> None:
    with (
        pytest.raises(UserError, match=r"^data/none: no such file; run the stage that makes it first"),
        output(TARGET, [Path("data/none")], {}),
    ):
        pass
    assert not TARGET.exists() and not Path(".scratch").exists()


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


@pytest.mark.parametrize("error", [OSError(errno.EACCES, "Permission denied"), RuntimeError("a bug"), KeyError("x")])
def test_what_is_no_users_mistake_keeps_its_traceback(error: Exception) -> None:
    with pytest.raises(type(error)), report_errors():
        raise error
