"""Makes a data set in which queries repeat: a reverse dictionary, as a folder in BEIR's format.

    python benchmarks/reverse_dictionary.py /usr/share/dictd FOLDER

A passage is WordNet's entry of a word, its first four senses. A query is one sense that GCIDE, the Collaborative
International Dictionary of English, gives for the same word, with that word taken out. So a passage has several
queries, each in other words. One sense of each word is a test query, one of some words a dev query, the others train.

It reads gcide.dict.dz, gcide.index, wn.dict.dz and wn.index of Debian's packages dict-gcide (0.48.5, GPL) and dict-wn
(3.0-37, WordNet's licence). Neither is copied here.
"""

import argparse
import gzip
import json
import random
import re
import string
from pathlib import Path

WORDS, SEED = 2000, 7
LEAST_SENSES, MOST_SENSES = 4, 8  # of GCIDE, of a word that is taken; further ones are left out
LEAST_WORDS, QUERY_WORDS = 10, range(5, 41)  # of a passage, of a query
MOST = {"dev": 800, "test": 2000}  # queries of these splits
DIGITS = string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/"  # of numbers in a dictd index


def main(dictd: Path, folder: Path) -> None:
    """Read both dictionaries, draw words and their splits, write the folder."""
    wordnet, gcide, draw = read(dictd, "wn"), read(dictd, "gcide"), random.Random(SEED)
    every = {word: (passage(wordnet[word]), senses_of(gcide[word], word)) for word in sorted(wordnet.keys() & gcide)}
    fit = [word for word, (text, of) in every.items() if len(text.split()) >= LEAST_WORDS and len(of) >= LEAST_SENSES]
    chosen = sorted(draw.sample(fit, WORDS))
    queries: dict[str, str] = {}
    judged: dict[str, list[tuple[str, str]]] = {"train": [], "dev": [], "test": []}
    for word in chosen:
        senses = every[word][1][:MOST_SENSES]
        draw.shuffle(senses)
        for number, sense in enumerate(senses):
            split = "test" if number == 0 else "dev" if number == 1 and draw.random() < 0.5 else "train"
            queries[f"{word}.{number}"] = sense
            judged[split].append((f"{word}.{number}", word))
    for split, most in MOST.items():
        kept = set(draw.sample(range(len(judged[split])), min(len(judged[split]), most)))
        judged[split] = [pair for place, pair in enumerate(judged[split]) if place in kept]
    asked = {qid for pairs in judged.values() for qid, _ in pairs}
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    passages = [{"_id": word, "title": word, "text": every[word][0]} for word in chosen]
    shown = [{"_id": qid, "text": text} for qid, text in queries.items() if qid in asked]
    for name, rows in (("corpus", passages), ("queries", shown)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for split, pairs in judged.items():
        lines = "".join(f"{qid}\t{pid}\t1\n" for qid, pid in pairs)
        (folder / "qrels" / f"{split}.tsv").write_text("query-id\tcorpus-id\tscore\n" + lines, encoding="utf-8")
    print(f"{folder}: {len(chosen)} passages;", ", ".join(f"{len(pairs)} {name}" for name, pairs in judged.items()))


def read(dictd: Path, name: str) -> dict[str, list[str]]:
    """The entries of every word of four letters or more, in lower case."""
    data = gzip.decompress((dictd / f"{name}.dict.dz").read_bytes())
    found: dict[str, list[str]] = {}
    for line in (dictd / f"{name}.index").read_text("utf-8", "replace").splitlines():
        headword, *place = line.split("\t")[:3]
        if re.fullmatch("[a-z]{4,}", headword.lower()):
            start, size = (sum(64**power * DIGITS.index(d) for power, d in enumerate(reversed(n))) for n in place)
            found.setdefault(headword.lower(), []).append(data[start : start + size].decode("utf-8", "replace"))
    return found


def passage(entries: list[str]) -> str:
    """The first four senses of WordNet's entries, without examples and synonyms."""
    text = re.sub(r"\s+", " ", re.sub(r"\[(syn|ant|also)[^\]]*\]", " ", " ".join(entries)))
    senses = re.findall(r"\d+: (.*?)(?=\s+(?:(?:n|v|adj|adv) )?\d+: |\Z)", text)
    return "; ".join(clean(re.sub(r"\"[^\"]*\"", " ", sense)) for sense in senses[:4])


def senses_of(entries: list[str], word: str) -> list[str]:
    """The numbered senses of GCIDE's entries, each once, with `it` for the word itself."""
    senses = []
    for entry in entries:
        for found in re.finditer(r"^   (?:\d+\.) (.*?)(?=^\s*$)", entry, re.DOTALL | re.MULTILINE):
            sense = clean(re.sub(r"\([A-Z][A-Za-z.& ]{1,20}\)", " ", found[1]).split("--")[0])
            sense = re.sub(rf"\b{word[: max(4, len(word) - 2)]}\w*", "it", sense, flags=re.IGNORECASE)
            if len(sense.split()) in QUERY_WORDS and not sense.lower().startswith(("same as", "see ", "of or pert")):
                senses.append(sense)
    return list(dict.fromkeys(senses))


def clean(text: str) -> str:
    """Without notes in square brackets, braces and repeated white space."""
    return re.sub(r"\s+", " ", re.sub(r"[{}]", "", re.sub(r"\[[^\]]*\]", " ", text))).strip(" ;,")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dictd", type=Path, help="/usr/share/dictd, where Debian's packages put them")
    parser.add_argument("folder", type=Path, help="where to write corpus.jsonl, queries.jsonl and qrels/")
    main(**vars(parser.parse_args()))
