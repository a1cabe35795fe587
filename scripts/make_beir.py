"""Write a folder in BEIR's format, of other files or of one whose texts are longer than an encoder reads.

python scripts/make_beir.py squad xquad.en.json FOLDER --test 0.3
python scripts/make_beir.py squad SETS FOLDER             # train.json, test.json and perhaps dev.json
python scripts/make_beir.py cut LONG FOLDER --words 120 --overlap 20
python scripts/make_beir.py tldr CLONE FOLDER             # of https://github.com/tldr-pages/tldr
"""

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Annotated

import polars as pl
import regex
import typer

from gnn_encoder.base.errors import UserError, report_errors
from gnn_encoder.base.files import replacing
from gnn_encoder.base.tables import SPLITS
from gnn_encoder.base.words import UNSPACED, is_empty, words
from gnn_encoder.data.formats import open_beir
from gnn_encoder.data.queries import split_of, stable_hash

OUR_SPLIT = Path(__file__).with_name("commands_split.parquet")  # hashes of tldr's dev and test captions of early 2026
# What stands between white space; in scripts without spaces, each character with its marks.
WORD = regex.compile(rf"[{UNSPACED}]\p{{M}}*|[^\s{UNSPACED}]+")
app = typer.Typer(help=str(__doc__).replace("\n\n", "\n\n\b\n"), add_completion=False, rich_markup_mode=None)
Rows = Iterable[tuple[str, ...]]  # ids with title and text, or with text
Qrels = dict[str, list[str]]  # the lines of each split


def write(folder: Path, passages: Rows, queries: Rows, qrels: Qrels) -> None:
    """Write the files beside their place, one line at a time; making the passages may fill the qrels."""
    with replacing(folder) as beside:
        (beside / "qrels").mkdir()
        for name, keys, rows in (("corpus", ("_id", "title", "text"), passages), ("queries", ("_id", "text"), queries)):
            with (beside / f"{name}.jsonl").open("w", encoding="utf-8") as file:
                file.writelines(json.dumps(dict(zip(keys, row, strict=True))) + "\n" for row in rows)
        for split, lines in qrels.items():
            (beside / f"qrels/{split}.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *lines, ""]), "utf-8")


@app.command()
def squad(source: Path, folder: Path, test: float = 0.1) -> None:
    """SQuAD's contexts and the questions that have an answer; of a single file, --test of these become test."""
    found = {split: source / f"{split}.json" for split in SPLITS if (source / f"{split}.json").is_file()}
    passages, queries, qrels = dict[str, tuple[str, str, str]](), dict[str, str](), Qrels()
    for name, path in found.items() or [("", source)]:
        try:
            for article in json.loads(path.read_text(encoding="utf-8-sig"))["data"]:
                title = (article.get("title") or "").replace("_", " ")
                for context, asked in ((one["context"], one["qas"]) for one in article["paragraphs"]):
                    pid = stable_hash(context)
                    passages.setdefault(pid, (pid, title, context))
                    for one in (one for one in asked if one["answers"] and not one.get("is_impossible")):
                        queries[one["id"]] = one["question"]
                        split = name or split_of(stable_hash(one["id"]), dev=0, test=test)
                        qrels.setdefault(split, []).append(f"{one['id']}\t{pid}\t1")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            told = f"not SQuAD's JSON ({type(error).__name__} {' '.join(str(error).split())})"
            raise UserError(f"{path}: {told}; give a file as SQuAD, XQuAD or MLQA have it") from error
    write(folder, passages.values(), queries.items(), qrels)


def blocks(text: str, size: int, overlap: int) -> list[str]:
    """Blocks of `size` words, the last one perhaps of fewer, each beginning with `overlap` words of the one before."""
    spans = [match.span() for match in WORD.finditer(text)]
    firsts = range(0, max(1, len(spans) - overlap), size - overlap)
    return [text[spans[first][0] : spans[first : first + size][-1][1]] for first in firsts]


@app.command()
def cut(source: Path, folder: Path, size: Annotated[int, typer.Option("--words")] = 120, overlap: int = 20) -> None:
    """Document D becomes D#0, D#1, ... of so many words, as DPR cuts Wikipedia (Karpukhin et al. 2020, section 4.1).

    A judgement becomes one of the part that shares most words with the query, rare words weighing more.
    """
    if not 0 <= overlap < size:
        raise UserError(f"--overlap is {overlap}: must be from 0 to below --words, {size}")
    found, judged, holding, n = open_beir(source), defaultdict[str, list[tuple[str, str, int]]](list), Counter[str](), 0
    queries = [(query.qid, query.text) for _, query in found.queries["train"]()]
    asked = {qid: set(words(text)) for qid, text in queries}
    for split, read in found.judgements.items():
        for _, one in read():
            judged[one.pid].append((split, one.qid, one.grade))
    wanted, qrels = set[str]().union(*asked.values()), Qrels({split: [] for split in found.judgements})
    for n, (_, document) in enumerate(found.passages(), start=1):  # noqa: B007
        holding.update(wanted.intersection(words(document.text)))

    def passages() -> Iterator[tuple[str, str, str]]:
        for _, passage in found.passages():
            title, text = (passage.title, passage.text) if not is_empty(passage.text) else ("", passage.title)
            if is_empty(text):
                judged.pop(passage.pid, None)
                continue
            parts = blocks(text, size, overlap)
            for split, qid, grade in judged.pop(passage.pid, []):
                shared = [asked.get(qid, set()).intersection(words(part)) for part in parts]
                scores = [math.fsum(math.log((n + 1) / (holding[word] + 1)) for word in both) for both in shared]
                qrels[split].append(f"{qid}\t{passage.pid}#{scores.index(max(scores))}\t{grade}")
            yield from ((f"{passage.pid}#{number}", title, part) for number, part in enumerate(parts))
        for pid, (split, qid, grade) in ((pid, row) for pid, rows in judged.items() for row in rows):
            qrels[split].append(f"{qid}\t{pid}\t{grade}")  # of an unknown document, which prepare refuses

    write(folder, passages(), queries, qrels)


def pages(clone: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Title, description and captions of each English page, platform by platform, in the order of names."""
    for path in sorted((clone / "pages").glob("*/*.md"), key=lambda path: (path.parent.name, path.name.lower())):
        lines = path.read_text(encoding="utf-8").splitlines()
        told = {mark: [line[2:].strip() for line in lines if line.startswith(f"{mark} ")] for mark in "#>-"}
        text = " ".join(line for line in told[">"] if not line.startswith(("More information", "See also")))
        text = text.replace("`", "")
        captions = [re.sub(r"\[(\w)\]", r"\1", line.removesuffix(":")).replace("`", "") for line in told["-"]]
        if told["#"] and captions and not text.startswith("This command is an alias of"):
            yield told["#"][0], text, captions


def hashed(pid: str, caption: str) -> int:
    """32 bits of a caption of a page, the same for any markup, case and spaces."""
    words = re.sub(r"[\s`\[\]\\]", "", caption.lower())
    return int.from_bytes(blake2b(f"{pid} {words}".encode(), digest_size=4).digest())


@app.command()
def tldr(clone: Path, folder: Path) -> None:
    """Commands, the data of results/tldr (CC BY 4.0): English pages, and the captions of their examples as queries."""
    ours = dict(pl.read_parquet(OUR_SPLIT).iter_rows())
    passages, queries = dict[str, tuple[str, str, str]](), dict[tuple[str, str], str]()
    for title, text, captions in pages(clone):
        pid = "p" + re.sub(r"[^A-Za-z0-9_]+", "-", title)  # one passage a name, whatever its platforms
        passages.setdefault(pid, (pid, title, text))
        queries |= {(pid, caption): ours.get(hashed(pid, caption), "train") for caption in captions}
    found, qrels = Counter(queries.values()), Qrels(train=[], dev=[], test=[])
    if not found["dev"] or not found["test"]:
        raise UserError(f"{clone}: none of our dev or test captions; give a clone of github.com/tldr-pages/tldr")
    for number, ((pid, _), split) in enumerate(queries.items()):
        qrels[split].append(f"q{number}\t{pid}\t1")
    write(folder, passages.values(), ((f"q{number}", caption) for number, (_, caption) in enumerate(queries)), qrels)
    told = ", ".join(f"{found[split]:,} of our {n:,} of {split}" for split, n in sorted(Counter(ours.values()).items()))
    print(f"{folder}: {len(passages):,} passages; queries: {found['train']:,} of train, {told}")


if __name__ == "__main__":
    with report_errors():
        app()
