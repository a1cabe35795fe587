"""Commands, the data of results/tldr: a clone of tldr-pages (CC BY 4.0) as a folder in BEIR's format, with our splits.

    git clone https://github.com/tldr-pages/tldr
    python scripts/commands_data.py tldr commands

A passage is an English page, and a query the caption of one of its examples. commands_split.parquet beside this file
has a hash of each caption of dev and test, whatever its markup; all others are train. Ours are pages of early 2026,
of a commit that was not kept: the line that it prints says how many of these captions the clone still has.
"""

import argparse
import re
from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

import polars as pl
from make_beir import write

from gnn_encoder.base.errors import UserError, report_errors

SPLIT = Path(__file__).with_name("commands_split.parquet")
ALIAS = "This command is an alias of"  # such a page describes no command of its own
LEFT_OUT = ("More information", "See also")  # lines of links


def pages(clone: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Title, description and captions of each English page, platform by platform, in the order of names."""
    for path in sorted((clone / "pages").glob("*/*.md"), key=lambda path: (path.parent.name, path.name.lower())):
        lines = path.read_text(encoding="utf-8").splitlines()
        told = {mark: [line[2:].strip() for line in lines if line.startswith(f"{mark} ")] for mark in "#>-"}
        text = " ".join(plain(line) for line in told[">"] if not line.startswith(LEFT_OUT))
        if told["#"] and not text.startswith(ALIAS):
            yield told["#"][0], text, [plain(re.sub(r"\[(\w)\]", r"\1", line.removesuffix(":"))) for line in told["-"]]


def plain(line: str) -> str:
    """A line without the marks of code."""
    return line.replace("`", "")


def hashed(pid: str, caption: str) -> int:
    """32 bits of a caption of a page, the same for any markup, case and spaces."""
    words = re.sub(r"[\s`\[\]\\]", "", caption.lower())
    return int.from_bytes(blake2b(f"{pid} {words}".encode(), digest_size=4).digest())


def read(clone: Path, held_out: dict[int, str]) -> tuple[dict[str, tuple[str, str]], dict[tuple[str, str], str]]:
    """Title and text of each passage id, and the split of each (passage id, caption), by hashes of those held out."""
    passages, queries = dict[str, tuple[str, str]](), dict[tuple[str, str], str]()
    for title, text, captions in pages(clone):
        pid = "p" + re.sub(r"[^A-Za-z0-9_]+", "-", title)  # one passage a name, whatever its platforms
        if captions:
            passages.setdefault(pid, (title, text))
        queries |= {(pid, caption): held_out.get(hashed(pid, caption), "train") for caption in captions}
    if not {"dev", "test"} <= set(queries.values()):
        rule = "pages/*/*.md have none of our dev or test captions; give a clone of https://github.com/tldr-pages/tldr"
        raise UserError(f"{clone}: {rule}")
    return passages, queries


def main() -> None:
    """Read a clone and write the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clone", type=Path, help="of https://github.com/tldr-pages/tldr")
    parser.add_argument("folder", type=Path, help="where to write corpus.jsonl, queries.jsonl and qrels/")
    given = parser.parse_args()
    held_out = dict(pl.read_parquet(SPLIT).iter_rows())
    passages, queries = read(given.clone, held_out)
    asked = list(enumerate(queries.items()))
    qrels = {
        split: [f"q{n}\t{pid}\t1" for n, ((pid, _), drawn) in asked if drawn == split]
        for split in ("train", "dev", "test")
    }
    texts = ((pid, title, text) for pid, (title, text) in passages.items())
    write(given.folder, texts, ((f"q{n}", caption) for n, ((_, caption), _) in asked), qrels)
    found, ours = Counter(queries.values()), Counter(held_out.values())
    told = ", ".join(f"{found[split]:,} of our {ours[split]:,} of {split}" for split in ("dev", "test"))
    print(f"{given.folder}: {len(passages):,} passages; queries: {found['train']:,} of train, {told}")


if __name__ == "__main__":
    with report_errors():
        main()
