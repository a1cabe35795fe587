"""Caches in the scratch place: those used last stay, and a damaged one is made again."""

import os
from pathlib import Path

import pytest

from gnn_encoder.base.files import DAY, cached

TOKENS = Path(".scratch/tokens")


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(folder: Path) -> None:
    (folder / "ids").write_text("1 2 3")


def test_former_keys_are_removed() -> None:
    def use(name: str, key: str, keep: int = 2) -> None:
        folder = cached(TOKENS, name, key, write, keep=keep)
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


def test_what_a_kill_left_half_written_goes_after_a_day() -> None:
    half = cached(TOKENS, "dev", "one", write, keep=1).with_suffix(".123")
    half.mkdir()
    cached(TOKENS, "dev", "two", write, keep=1)
    assert half.is_dir(), "another process may be writing it"
    old = half.stat().st_mtime - 2 * DAY
    os.utime(half, (old, old))
    cached(TOKENS, "dev", "two", write, keep=1)
    assert not half.exists()


@pytest.mark.parametrize("content", ["1 2 7", "1 2", "", None])
@pytest.mark.parametrize("name", ["ids", "manifest.json"])
def test_a_damaged_cache_is_made_again(name: str, content: str | None, caplog: pytest.LogCaptureFixture) -> None:
    folder = cached(TOKENS, "dev", "one", write, keep=1)
    cached(TOKENS, "dev", "one", lambda _: pytest.fail("it is whole"), keep=1)
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_text(content)
    assert cached(TOKENS, "dev", "one", write, keep=1) == folder
    assert (folder / "ids").read_text() == "1 2 3"
    assert caplog.messages == [".scratch/tokens/dev-one: damaged; it is made again"]


def test_a_cache_that_cannot_be_made_leaves_nothing() -> None:
    def fail(folder: Path) -> None:
        write(folder)
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        cached(TOKENS, "dev", "one", fail, keep=1)
    assert [*TOKENS.iterdir()] == []


def test_of_two_processes_that_make_the_same_one_is_kept() -> None:
    folder = TOKENS / "dev-one"

    def slowly(beside: Path) -> None:
        cached(TOKENS, "dev", "one", lambda other: (other / "first").touch(), keep=1)
        write(beside)

    assert cached(TOKENS, "dev", "one", slowly, keep=1) == folder
    assert (folder / "first").exists() and [*TOKENS.iterdir()] == [folder]
