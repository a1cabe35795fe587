"""Files: moved into place whole, told by their fingerprints, and caches that are made again where they are damaged."""

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.files import cached, fingerprint, publish, write_json
from gnn_encoder.base.matrix import ArrayWriter


def tree(path: Path) -> dict[str, str]:
    return {str(p.relative_to(path)): p.read_text() for p in path.rglob("*") if p.is_file()}


def make(path: Path, **files: str) -> Path:
    path.mkdir(parents=True)
    for name, text in files.items():
        (path / name).write_text(text)
    return path


def test_a_folder_replaces_another_and_leaves_nothing_of_it(tmp_path: Path) -> None:
    publish(make(tmp_path / "new", a="1"), tmp_path / "deep" / "target")
    assert tree(tmp_path) == {"deep/target/a": "1"}
    shutil.rmtree(tmp_path / "deep")
    make(tmp_path / "new.replaced", a="older")  # as a kill leaves it
    publish(make(tmp_path / "new", a="new"), make(tmp_path / "target", a="old", b="old"))
    assert tree(tmp_path) == {"target/a": "new"}
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


@pytest.mark.parametrize("there", [False, True])
def test_a_name_is_given_to_what_is_synced_and_is_synced_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    new, target, events = make(tmp_path / "new", a="1", b="2"), tmp_path / "at" / "target", list[str]()
    if there:
        make(target, a="old")
    for name in ("rename", "replace"):
        move = getattr(Path, name)
        noted = lambda path, to, move=move: (events.append(f"{Path(to).name}!"), move(path, to))  # noqa: E731
        monkeypatch.setattr(Path, name, noted)
    monkeypatch.setattr(os, "fsync", lambda number: events.append(Path(f"/proc/self/fd/{number}").resolve().name))
    publish(new, target)
    before, after = events[: events.index("target!")], events[events.index("target!") + 1 :]
    assert {"a", "b", "new"} <= set(before) and before.index("new") > before.index("b")
    assert after == ["at"]


def test_a_matrix_for_which_there_is_no_room_is_not_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2**20))
    with pytest.raises(UserError, match=r"m needs 2 MiB, and 1 are free; .* cache_passages.dtype to flo"):
        ArrayWriter(tmp_path / "m", (2**10, 2**9), "float32")
    assert list((tmp_path / "m").iterdir()) == []


def test_a_fingerprint_changes_with_content_names_and_values(tmp_path: Path) -> None:
    folder = make(tmp_path / "made", a="one", b="two")
    seen = [fingerprint(folder, k=1), fingerprint(folder, k=2), fingerprint(folder, j=1), fingerprint(k=1)]
    for change in (
        lambda: (folder / "a").write_text("One"),
        lambda: (folder / "a").rename(folder / "c"),
        lambda: (folder / "b").unlink(),
    ):
        change()
        seen.append(fingerprint(folder, k=1))
    assert len(set(seen)) == len(seen)
    before = fingerprint(folder, a=1, b={"x": 1, "y": 2})
    assert fingerprint(moved := folder.rename(tmp_path / "moved"), b={"y": 2, "x": 1}, a=1) == before
    write_json(moved / "manifest.json", {"fingerprint": "abc"})  # which stands for the content
    before = fingerprint(moved)
    (moved / "c").write_text("not read again")
    assert fingerprint(moved) == before
    write_json(moved / "manifest.json", {"fingerprint": "abd"})
    assert fingerprint(moved) != before


def write(folder: Path) -> None:
    (folder / "ids").write_text("1 2 3")


def test_the_caches_used_last_stay(tmp_path: Path) -> None:
    for now, key in enumerate(("one", "two", "one", "three")):
        os.utime(cached(tmp_path, "train", key, write, keep=2), (now, now))
    assert {path.name for path in tmp_path.iterdir()} == {"train-one", "train-three"}


@pytest.mark.parametrize("content", ["1 2", "", None])
@pytest.mark.parametrize("name", ["ids", "manifest.json"])
def test_a_damaged_cache_is_made_again(
    tmp_path: Path, name: str, content: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    folder = cached(tmp_path, "dev", "one", write, keep=1)
    cached(tmp_path, "dev", "one", lambda _: pytest.fail("it is whole"), keep=1)
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_text(content)
    assert cached(tmp_path, "dev", "one", write, keep=1) == folder
    assert (folder / "ids").read_text() == "1 2 3"
    assert caplog.messages == [f"warning: {folder}: damaged; it is made again"]


def test_a_cache_that_cannot_be_made_leaves_nothing_and_of_two_makers_one_is_kept(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        write(folder)
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        cached(tmp_path, "dev", "one", fail, keep=1)
    assert [*tmp_path.iterdir()] == []

    def slowly(beside: Path) -> None:
        cached(tmp_path, "dev", "one", lambda other: (other / "first").touch(), keep=1)
        write(beside)

    assert (cached(tmp_path, "dev", "one", slowly, keep=1) / "first").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["dev-one"]
