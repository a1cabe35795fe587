"""How a stage's artifact is built: whole, kept over an error, keyed by what decides it; and how errors are told."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
import yaml
from safetensors import SafetensorError

from gnn_encoder.base import distributed
from gnn_encoder.base.errors import UserError, report_errors
from gnn_encoder.base.files import publish, write_json, write_text
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.stage import Stage, artifact, find_stage

from ..pipelines import Project
from ..project import ROOT
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

    def interrupted(self, *stage: str, k: int = 1, own_files: tuple[Path, ...] = ()) -> Path:
        with pytest.raises(KeyboardInterrupt), self(*(stage or ["thing"]), k=k, own_files=own_files) as begun:
            (begun.scratch / "a.txt").write_text("half")
            (begun.work / "last").write_text("step 3")
            raise KeyboardInterrupt
        return begun.scratch


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("thin", [], "dvc.yaml: has no stage thin; its stages and the scripts in stages/ share names"),
        ("thing", ["one"], "argument is 'one': stage thing runs once; leave it out"),
        ("each", [], "no argument: must be one of one, two"),
        ("each", ["one", "two"], "argument is 'one two': must be one of one, two"),
    ],
)
def test_a_stage_that_is_none(name: str, arguments: list[str], message: str) -> None:
    with pytest.raises(UserError) as caught:
        find_stage(name, arguments)
    assert str(caught.value) == message


def test_a_stage_runs_once_at_a_time(begin: Begin) -> None:
    with begin(k=1) as stage:
        (stage.scratch / "a.txt").write_text("first")
        with pytest.raises(UserError, match="^data/thing: another call of its stage runs"), begin(k=2):
            pass
    assert (TARGET / "a.txt").read_text() == "first" and not list(Path(".scratch").glob("*.lock"))
    begin.build("second", k=2)
    assert (TARGET / "a.txt").read_text() == "second"


def content(folder: Path = TARGET) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_is_published_whole_and_kept_over_an_error(root: Path, begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    with begin(k=1) as stage:
        (stage.scratch / "a.txt").write_text("old")
        (stage.scratch / ".work" / "last").write_text("only for resuming")
        assert not TARGET.exists()
    before = content()
    assert before.keys() == {"a.txt", "manifest.json"}
    assert not [path for path in (root / ".scratch").rglob("*") if path.is_file()]
    scratch = begin.interrupted(k=2)
    assert content() == before
    with begin(k=2) as again:
        assert again.scratch == scratch
        assert (again.scratch / "a.txt").read_text() == "half" and (again.work / "last").read_text() == "step 3"
    assert (TARGET / "a.txt").read_text() == "half"
    with monkeypatch.context() as patch:
        patch.setattr("gnn_encoder.pipeline.stage.ROOT", root)  # without code
        begin.build("old", k=1)
    assert content() == before, "other code that makes the same leaves the same bytes"


def test_a_write_that_was_killed_leaves_nothing_in_the_artifact(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(source: Path, target: Path) -> None:
        raise KeyboardInterrupt

    begin.build("done", k=1)
    before = content()
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt), begin(k=1) as stage:
        patch.setattr("gnn_encoder.base.files.publish", killed)
        write_json(stage.scratch / "part" / "found.json", 1)
    assert list((stage.scratch / "part").iterdir())
    begin.build("done", k=1)
    assert content() == before


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
    assert (root / "metrics" / "thing" / "found.json").read_text() == "2\n"
    assert [path.name for path in TARGET.iterdir()] == ["manifest.json"]
    assert not (root / ".scratch" / "thing").exists()


def test_what_decides_where_a_stage_goes_on(root: Path, begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parameters, inputs, item and code do, where they are declared: anything else begins anew what was left."""
    code, own = root / "src/gnn_encoder", root / "own.txt"
    for name, text in (("base/a.py", '"""One."""'), ("serve/b.py", '"""Two."""'), ("../../stages/thing.py", "")):
        (code / name).resolve().parent.mkdir(parents=True, exist_ok=True)
        (code / name).write_text(text)
    monkeypatch.setattr("gnn_encoder.pipeline.stage.ROOT", root)
    mgt = begin.params.mgt
    beta, layers = (
        Begin(begin.params.model_copy(update={"mgt": mgt.model_copy(update=changed)}))
        for changed in ({"beta": 0.5}, {"layers": 1})
    )
    first = begin.interrupted(k=1)
    (code / "serve/b.py").write_text('"""Three."""')
    (code / "base/__pycache__").mkdir()
    (code / "base/__pycache__/a.pyc").write_text("compiled")
    assert layers.interrupted(k=1) == begin.interrupted(k=1) == first
    seen = [first, beta.interrupted(k=1), begin.interrupted(k=2)]
    for path in (root / "input.txt", code / "base/a.py", root / "stages/thing.py"):
        path.write_text("other = 1")
        seen.append(begin.interrupted(k=2))
    (code / "base/a.py").rename(code / "base/c.py")
    seen.append(begin.interrupted(k=2))
    for text in ("mine", "other"):
        own.write_text(text)
        seen.append(begin.interrupted(k=2, own_files=(own,)))
        assert begin.interrupted(k=2, own_files=(own,)) == seen[-1]
    assert len(set(seen)) == len(seen)
    assert [path.name for path in seen[-1].parent.iterdir()] == [seen[-1].name], "what was left is removed"
    with begin(k=3) as stage:
        assert list(stage.work.iterdir()) == [] and not (stage.scratch / "a.txt").exists()
    views = []
    for number in (1, 3):
        changed = PIPELINE | {"each": PIPELINE["each"] | {"foreach": {"one": {"views": number}}}}
        (root / "dvc.yaml").write_text(yaml.safe_dump({"stages": changed}))
        views.append(begin.interrupted("each", "one"))
    assert views[0] != views[1]


def test_several_outputs(root: Path, begin: Begin) -> None:
    with begin("several", k=1) as stage:
        for output in stage.outputs:
            (stage.unfinished(output) / "a.txt").write_text(output.name)
        assert not (root / "data").exists()
        with pytest.raises(ValueError):
            _ = stage.scratch
    assert [(root / name / "a.txt").read_text() for name in ("data/a", "data/b/c")] == ["a", "c"]
    assert content(root / "data/b/c").keys() == {"a.txt", "manifest.json"}


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
    with pytest.raises(UserError, match=r"own.txt: no such file"), begin(k=1, own_files=(root / "own.txt",)):
        pass
    (root / "input.txt").unlink()
    with pytest.raises(UserError, match=r"^input.txt: not built"), begin(k=1):
        pass
    assert not TARGET.exists() and not Path(".scratch").exists()


def test_each_key_has_its_item_and_its_artifact(root: Path, begin: Begin) -> None:
    seen = []
    for key, item in (("one", {"views": 1}), ("two", {"views": 2})):
        with begin("each", key, k=1) as stage:
            (stage.scratch / "a.txt").write_text(key)
            seen.append(stage.scratch.parts)
        assert (stage.key, stage.item) == (key, item)
        assert (root / "data" / "each" / key / "a.txt").read_text() == key
    assert [parts[:2] for parts in seen] == [(".scratch", "each-one"), (".scratch", "each-two")]


def write_found(stage: Stage, value: int) -> None:
    write_json(stage.unfinished(Path("metrics/thing/found.json")), value)
    write_text(stage.unfinished(Path("plots/thing/drawn.csv")), f"x,{value}")


def test_metrics_and_plots_land_where_they_are_declared(root: Path, begin: Begin) -> None:
    (root / "metrics/thing").mkdir(parents=True)
    (root / "metrics/thing/mine.txt").write_text("kept")
    for value in (1, 2):
        with begin(k=1) as stage:
            write_found(stage, value)
            assert (root / "metrics/thing/found.json").exists() == (value == 2)
        found = {path.name: path.read_text() for path in root.glob("[mp]*/thing/*")}
        assert found == {"found.json": f"{value}\n", "drawn.csv": f"x,{value}", "mine.txt": "kept"}
    assert [path.name for path in TARGET.iterdir()] == ["manifest.json"], "they are no part of the artifact"


def test_two_processes(root: Path, environment: dict[str, str]) -> None:
    """What is not shared runs on the first rank, whose barriers are its own; both see the artifact in its place."""
    modes = {"once": ["0 of 1"], "shared": ["0 of 2", "1 of 2"]}
    stages = {
        mode: {"cmd": f"scripts/python stages/{mode}.py", "deps": ["input.txt"], "outs": [f"data/{mode}"]}
        for mode in modes
    }
    Path("dvc.yaml").write_text(yaml.safe_dump({"stages": stages}))
    Project(root, environment).two_ranks(two_ranks.__file__)
    for mode, ranks in modes.items():
        assert [path.read_text() for path in sorted(root.glob(f"{mode}-ran-*"))] == ranks
        assert [(root / f"{mode}-after-{rank}").read_text() for rank in range(2)] == ["made by rank 0"] * 2
        assert content(Path("data") / mode).keys() == {"manifest.json", "made.txt"}


DISK, MEMORY = "error: no space left on the disk", "error: out of memory"
DENIED = "Permission denied; change its permissions or its owner\n"
MENDED: list[tuple[Exception, str]] = [
    (UserError("a.txt: wrong"), "error: a.txt: wrong\n"),
    (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "data/a.npy"), f"{DISK} while writing data/a.npy ("),
    # What numpy, safetensors and faiss raise on a full disk: no errno.
    (OSError("1000000 requested and 131056 written"), DISK),
    (SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"), DISK),
    (RuntimeError("Error in void faiss::write_index(...): 1 != 2 (No space left on device)"), DISK),
    (MemoryError(), MEMORY),
    (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to\nx"), MEMORY),
    (PermissionError(errno.EACCES, "", "data/a.npy"), f"error: data/a.npy: {DENIED}"),
    (  # as Arrow does
        PermissionError(errno.EACCES, "Failed to open local file 'a'.\nDetail: Permission denied"),
        f"error: [Errno 13] Failed to open local file 'a'. Detail: {DENIED}",
    ),
    (OSError(errno.EIO, "", "x"), "error: x: Input/output error; correct that, then run again\n"),
]


@pytest.mark.parametrize(("error", "start"), MENDED)
def test_what_a_user_can_mend_is_one_line(error: Exception, start: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught, report_errors():
        raise error
    text = capsys.readouterr().err
    assert caught.value.code == 2 and text.count("\n") == 1 and text.startswith(start)


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
