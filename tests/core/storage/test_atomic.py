"""Moving into place: whole, whatever stood there before."""

from pathlib import Path

import pytest

from gnn_encoder.core.storage.atomic import publish, write_text


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
