"""Writes folders in BEIR's format: of SQuAD's JSON, and of a folder whose texts are longer than an encoder reads.

    python scripts/make_beir.py squad xquad.en.json FOLDER --test 0.3   # one file: that share of its questions is test
    python scripts/make_beir.py squad SETS FOLDER                       # train.json, test.json and perhaps dev.json
    python scripts/make_beir.py cut LONG FOLDER --words 120 --overlap 20

squad: the contexts are the passages, equal ones once; a question's relevant passage is its context. Questions without
an answer are left out. cut: document D becomes D#0, D#1, ... of so many words, as DPR cuts Wikipedia (Karpukhin et al.
2020, section 4.1). A judgement becomes one of the part that shares most words with the query, rare words weighing more.
"""

import argparse
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import regex

from gnn_encoder.base.errors import UserError, report_errors
from gnn_encoder.base.files import replacing
from gnn_encoder.base.tables import SPLITS
from gnn_encoder.base.words import UNSPACED, words
from gnn_encoder.data.formats import open_beir
from gnn_encoder.data.query_log import split_of, stable_hash
from gnn_encoder.data.reading import QRELS_HEADER

# What stands between white space; in scripts without spaces, each character with its marks.
WORD = regex.compile(rf"[{UNSPACED}]\p{{M}}*|[^\s{UNSPACED}]+")
Texts = Iterable[tuple[str, ...]]  # ids with title and text, or with text
Qrels = dict[str, list[str]]  # the lines of each split


def write(folder: Path, passages: Texts, queries: Texts, qrels: Qrels) -> None:
    """Write the files beside their place, one line at a time; making the passages may fill the qrels."""
    with replacing(folder) as beside:
        (beside / "qrels").mkdir()
        for name, keys, rows in (("corpus", ("_id", "title", "text"), passages), ("queries", ("_id", "text"), queries)):
            with (beside / f"{name}.jsonl").open("w", encoding="utf-8") as file:
                file.writelines(json.dumps(dict(zip(keys, row, strict=True))) + "\n" for row in rows)
        for split, lines in qrels.items():
            (beside / "qrels" / f"{split}.tsv").write_text("\n".join(["\t".join(QRELS_HEADER), *lines, ""]), "utf-8")


def squad(source: Path, folder: Path, test: float) -> None:
    """The files of a folder are its splits; the questions of one file are divided by a hash of their ids."""
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


def cut(source: Path, folder: Path, size: int, overlap: int) -> None:
    """Memory: the queries and the judgements."""
    if not 0 <= overlap < size:
        raise UserError(f"--overlap is {overlap}: must be from 0 to below --words, {size}")
    found, judged, holding, n = open_beir(source), defaultdict[str, list[tuple[str, str, int]]](list), Counter[str](), 0
    queries = [(query.qid, query.text) for _, query in found.queries["train"]()]
    asked = {qid: set(words(text)) for qid, text in queries}
    for split, (_, one) in ((split, row) for split, read in found.judgements.items() for row in read()):
        judged[one.pid].append((split, one.qid, one.grade))
    wanted, qrels = set[str]().union(*asked.values()), Qrels({split: [] for split in found.judgements})
    for n, (_, document) in enumerate(found.passages(), start=1):  # noqa: B007
        holding.update(wanted.intersection(words(document.text)))

    def passages() -> Iterator[tuple[str, str, str]]:
        for passage in filter(None, (document.with_text() for _, document in found.passages())):
            parts = blocks(passage.text, size, overlap)
            for split, qid, grade in judged.pop(passage.pid, []):
                shared = [asked.get(qid, set()).intersection(words(part)) for part in parts]
                scores = [math.fsum(math.log((n + 1) / (holding[word] + 1)) for word in both) for both in shared]
                qrels[split].append(f"{qid}\t{passage.pid}#{scores.index(max(scores))}\t{grade}")
            yield from ((f"{passage.pid}#{number}", passage.title, part) for number, part in enumerate(parts))
        for pid, (split, qid, grade) in ((pid, row) for pid, rows in judged.items() for row in rows):
            qrels[split].append(f"{qid}\t{pid}\t{grade}")  # of an unknown document, which prepare refuses

    write(folder, passages(), queries, qrels)


if __name__ == "__main__":
    with report_errors():
        parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("what", choices=["squad", "cut"])
        parser.add_argument("folders", type=Path, nargs=2, metavar=("SOURCE", "FOLDER"))
        for option, default in {"--test": 0.1, "--words": 120, "--overlap": 20}.items():
            parser.add_argument(option, type=type(default), default=default)
        given = vars(parser.parse_args())
        rest = (given["test"],) if given["what"] == "squad" else (given["words"], given["overlap"])
        {"squad": squad, "cut": cut}[given["what"]](*given["folders"], *rest)
