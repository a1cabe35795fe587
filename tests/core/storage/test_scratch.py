"""Caches in the scratch place: those used last stay."""

import os
from pathlib import Path

import pytest

from gnn_encoder.core.storage.scratch import DAY, cached

TOKENS = Path(".scratch/tokens")


def test_former_keys_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def use(name: str, key: str, keep: int = 2) -> None:
        folder = cached(TOKENS, name, key, keep=keep)
        folder.mkdir(exist_ok=True)
        use.now += 1  # type: ignore[attr-defined]
        os.utime(folder, (use.now, use.now))  # type: ignore[attr-defined]

    def there() -> list[str]:
        return sorted(path.name for path in TOKENS.iterdir())

    use.now = 0  # type: ignore[attr-defined]
    for key in ("one", "two", "one", "three"):
        use("train", key)
    assert there() == ["train-one", "train-three"], "the one that was used longest ago is gone"
    use("dev", "one")
    assert there() == ["dev-one", "train-one", "train-three"], "another name's stay"
    use("train", "four", keep=1)
    assert there() == ["dev-one", "train-four"]


def test_what_a_kill_left_half_written_goes_after_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    half = cached(TOKENS, "dev", "one", keep=1).with_suffix(".123")
    half.mkdir()
    cached(TOKENS, "dev", "two", keep=1)
    assert half.is_dir(), "another process may be writing it"
    old = half.stat().st_mtime - 2 * DAY
    os.utime(half, (old, old))
    cached(TOKENS, "dev", "two", keep=1)
    assert not half.exists()
