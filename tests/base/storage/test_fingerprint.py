"""Fingerprints: what they change with, and what they do not read."""

from pathlib import Path

import pytest

from gnn_encoder.base.files import code_fingerprint, fingerprint, write_json


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "made" / "inner").mkdir(parents=True)
    (tmp_path / "made" / "a.txt").write_text("one")
    (tmp_path / "made" / "inner" / "b.txt").write_text("two")
    return tmp_path / "made"


def test_changes_with_content_names_and_values(folder: Path) -> None:
    seen = [fingerprint(folder, k=1), fingerprint(folder, k=2), fingerprint(folder, j=1), fingerprint(k=1)]
    (folder / "a.txt").write_text("One")
    seen.append(fingerprint(folder, k=1))
    (folder / "a.txt").rename(folder / "c.txt")
    seen.append(fingerprint(folder, k=1))
    (folder / "inner" / "b.txt").unlink()
    seen.append(fingerprint(folder, k=1))
    assert len(set(seen)) == len(seen)


def test_does_not_depend_on_where_the_folder_is_or_on_key_order(folder: Path) -> None:
    before = fingerprint(folder, a=1, b={"x": 1, "y": 2})
    moved = folder.rename(folder.with_name("moved"))
    assert fingerprint(moved, b={"y": 2, "x": 1}, a=1) == before


def test_a_manifest_with_a_fingerprint_stands_for_its_folder(folder: Path) -> None:
    write_json(folder / "manifest.json", {"fingerprint": "abc"})
    before = fingerprint(folder)
    (folder / "a.txt").write_text("not read again")
    assert fingerprint(folder) == before
    write_json(folder / "manifest.json", {"fingerprint": "abd"})
    assert fingerprint(folder) != before


def test_code_is_python_files_and_where_they_lie(tmp_path: Path) -> None:
    def of() -> str:
        return code_fingerprint([Path("src/package"), Path("stages/a.py")], tmp_path)

    for name in ("src/package/a.py", "src/package/inner/b.py", "stages/a.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    before = of()
    (tmp_path / "src/package/notes.txt").touch()
    (tmp_path / "stages/other.py").touch()
    assert of() == before
    (tmp_path / "src/package/a.py").rename(tmp_path / "src/package/c.py")
    assert of() != before
