"""A change counts once it is at rest, and counts again until it is taken."""

import os
from pathlib import Path

from gnn_encoder.serving.watch import Change


def test_a_change_is_told_when_it_rests_and_until_it_is_taken(tmp_path: Path) -> None:
    manifest, index = tmp_path / "manifest.json", tmp_path / "index"
    manifest.write_text("1")
    change = Change([manifest, index])
    assert not change.settled()
    index.write_text("growing")
    assert not change.settled()  # the first look at something new
    index.write_text("growing still")
    assert not change.settled()
    assert change.settled() and change.settled()
    change.take()
    assert not change.settled()
    manifest.unlink()
    assert not change.settled()
    assert change.settled()


def test_a_file_of_the_same_size_and_time_in_its_place(tmp_path: Path) -> None:
    path, other = tmp_path / "manifest.json", tmp_path / "other"
    path.write_text("1")
    change = Change([path])
    other.write_text("2")
    os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    other.replace(path)
    change.settled()
    assert change.settled()
