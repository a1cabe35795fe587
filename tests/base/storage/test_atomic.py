"""Moving into place: whole, whatever stood there before."""

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.files import publish, write_text
from gnn_encoder.base.matrix import ArrayWriter


def tree(path: Path) -> dict[str, str]:
    return {str(p.relative_to(path)): p.read_text() for p in path.rglob("*") if p.is_file()}


def make(path: Path, **files: str) -> Path:
    path.mkdir(parents=True)
    for name, text in files.items():
        (path / name).write_text(text)
    return path


def test_folder_goes_to_a_new_place(tmp_path: Path) -> None:
    publish(make(tmp_path / "new", a="1"), tmp_path / "deep" / "target")
    assert tree(tmp_path) == {"deep/target/a": "1"}


def test_folder_replaces_a_folder_and_leaves_nothing_of_it(tmp_path: Path) -> None:
    target = make(tmp_path / "target", a="old", b="old")
    publish(make(tmp_path / "new", a="new"), target)
    assert tree(tmp_path) == {"target/a": "new"}
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


def test_what_a_kill_left_beside_does_not_stop_the_next_move(tmp_path: Path) -> None:
    make(tmp_path / "new.replaced", a="older")
    publish(make(tmp_path / "new", a="new"), make(tmp_path / "target", a="old"))
    assert tree(tmp_path) == {"target/a": "new"}


def test_text_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "note.txt"
    write_text(path, "été")
    assert path.read_bytes() == "été".encode()
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "half \ud800")
    assert path.read_text(encoding="utf-8") == "été"


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
    with pytest.raises(
        UserError, match=r"on the disk: .*m needs 2 MiB, and 1 are free; .* cache_passages.dtype to flo"
    ):
        ArrayWriter(tmp_path / "m", (2**10, 2**9), "float32")
    assert list((tmp_path / "m").iterdir()) == []
