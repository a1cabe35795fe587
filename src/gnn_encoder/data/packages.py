"""Sources that are packages: `insuranceqa`, and `ir_datasets`, any data set of that package by its name."""

import gzip
import json
import zlib
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.tables import SPLITS
from gnn_encoder.base.words import is_empty
from gnn_encoder.data.reading import DataSource, Judgement, Passage, Place, Query, check_id, check_string, check_text

# --- insuranceqa: the English part of the registry package insuranceqa-data (Feng et al. 2015, arXiv:1508.01585) ------
#
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
    for path in (answers, *splits.values()):
        if not path.is_file():
            raise UserError(f"{path}: no such file; run `pip install --force-reinstall {REQUIREMENT}`")
    return DataSource(
        files=[answers, *splits.values()],
        passages=lambda: ((place, Passage(pid, "", text)) for place, (pid, text, _) in _texts(answers)),
        queries={split: partial(_texts, path) for split, path in splits.items()},
        judgements={split: partial(_answers, path) for split, path in splits.items()},
    )


def _answers(path: Path) -> Iterator[tuple[Place, Judgement]]:
    """Each answer of a query, with grade 1."""
    for place, qid, entry in _entries(path):
        for pid in entry.get("answers") or []:
            yield place, Judgement(qid, check_id(place, "answers", pid), 1)


def _entries(path: Path) -> Iterator[tuple[Place, str, dict[str, Any]]]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            entries: dict[str, dict[str, Any]] = json.load(file)
    except (EOFError, gzip.BadGzipFile, zlib.error, ValueError) as error:
        raise UserError(f"{path}: damaged ({error}); run `pip install --force-reinstall {REQUIREMENT}`") from error
    for key, entry in entries.items():
        yield Place(path, f"entry {key}"), key, entry


def _texts(path: Path) -> Iterator[tuple[Place, Query]]:
    """The entries with their English texts. Ids are the source's: each split counts from 0."""
    for place, key, entry in _entries(path):
        yield place, Query(key, " ".join(check_text(place, "en", entry.get("en")).split()))


# --- ir_datasets: any data set of the package by its name (MacAvaney et al. 2021; https://ir-datasets.com) ------------
#
# Choosing this source permits downloads: the package fetches the data sets that it does not have into a folder of its
# own (IR_DATASETS_HOME). It keeps and checks their files, so that a data set's name stands for its content.


def open_ir_datasets(names: dict[str, str]) -> DataSource:
    """The data set of each split. The passages are those of the data set for split train."""
    sets = {split: (Path(name), _load(split, name)) for split, name in names.items()}
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
    registry = _package().registry
    found = {split: f"{name}/{split}" for split in SPLITS if f"{name}/{split}" in registry}
    if "train" not in found or "test" not in found:
        cure = "name each split's data set in data.names"
        raise UserError(f"data.name: ir_datasets has no {name}/train with {name}/test; {cure}")
    return found


def _documents(name: Path, found: Any) -> Iterator[tuple[Place, Passage]]:
    for number, document in enumerate(found.docs_iter()):
        place, titled = Place(name, f"document {number}"), {"title", "text"} <= set(document._fields)
        title, text = (document.title, document.text) if titled else ("", document.default_text())
        texts = check_string(place, "title", title or ""), check_string(place, "text", text or "")
        yield place, Passage(check_id(place, "doc_id", document.doc_id), *texts)


def _asked(name: Path, found: Any, empty: set[Place]) -> Iterator[tuple[Place, Query]]:
    """The queries of a split; those without a text are added to `empty` instead."""
    for number, query in enumerate(found.queries_iter()):
        place, text = Place(name, f"query {number}"), query.default_text() or ""
        if is_empty(text):
            empty.add(place)
        else:
            yield place, Query(check_id(place, "query_id", query.query_id), check_string(place, "text", text))


def _judged(name: Path, found: Any) -> Iterator[tuple[Place, Judgement]]:
    for number, one in enumerate(found.qrels_iter()):
        place = Place(name, f"judgement {number}")
        qid, pid = check_id(place, "query_id", one.query_id), check_id(place, "doc_id", one.doc_id)
        yield place, Judgement(qid, pid, int(one.relevance))


def _package() -> Any:
    try:
        return import_module("ir_datasets")
    except ImportError as error:
        raise UserError(MISSING.format("ir_datasets", "bash scripts/environment.sh ir_datasets")) from error


def _load(split: str, name: str) -> Any:
    try:
        found = _package().load(name)
    except KeyError as error:
        cure = "choose one of https://ir-datasets.com"
        raise UserError(f"data.names.{split}: ir_datasets has no data set {name!r}; {cure}") from error
    missing = [part for part in ("docs", "queries", "qrels") if not getattr(found, f"has_{part}")()]
    if missing:
        raise UserError(f"data.names.{split}: {name!r} has no {' and no '.join(missing)}; choose a part of it that has")
    return found
