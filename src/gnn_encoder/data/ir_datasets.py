"""Source `ir_datasets`: any data set of the package ir_datasets by its name (MacAvaney et al. 2021).

The names are listed at https://ir-datasets.com. Choosing this source permits downloads: the package fetches the data
sets that it does not have into a folder of its own (IR_DATASETS_HOME).
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.tables import SPLITS
from gnn_encoder.base.words import is_empty
from gnn_encoder.data.rows import Judgement, Passage, Place, Query, Source, check_id, check_string

PARTS = ("docs", "queries", "qrels")


def open_ir_datasets(names: dict[str, str]) -> Source:
    """Data sets of ir_datasets. The passages are those of the data set for split train.

    It names no files: ir_datasets keeps and checks them, so that a data set's name stands for its content.
    """
    sets = {split: (Path(name), _load(split, name)) for split, name in names.items()}
    empty = set[Place]()
    return Source(
        files=[],
        passages=partial(_passages, *sets["train"]),
        queries={split: partial(_queries, *found, empty) for split, found in sets.items()},
        judgements={split: partial(_judgements, *found) for split, found in sets.items()},
        dropped=lambda: {"empty_queries": len(empty)} if empty else {},
        foreign=True,
    )


def split_names(name: str) -> dict[str, str]:
    """The data sets NAME/train, NAME/test and, where there is one, NAME/dev."""
    registry = _package().registry
    found = {split: f"{name}/{split}" for split in SPLITS if f"{name}/{split}" in registry}
    if "train" not in found or "test" not in found:
        raise UserError(
            f"data.name: ir_datasets has no {name}/train with {name}/test; name each split's data set in data.names"
        )
    return found


def _passages(name: Path, found: Any) -> Iterator[tuple[Place, Passage]]:
    """All passages."""
    for number, document in enumerate(found.docs_iter()):
        place = Place(name, f"document {number}")
        titled = {"title", "text"} <= set(document._fields)
        title, text = (document.title or "", document.text or "") if titled else ("", document.default_text())
        pid, title = check_id(place, "doc_id", document.doc_id), check_string(place, "title", title)
        yield place, Passage(pid, title, check_string(place, "text", text or ""))


def _queries(name: Path, found: Any, empty: set[Place]) -> Iterator[tuple[Place, Query]]:
    """The queries of a split; those without a text are added to `empty` instead."""
    for number, query in enumerate(found.queries_iter()):
        place = Place(name, f"query {number}")
        text = check_string(place, "text", query.default_text() or "")
        if is_empty(text):
            empty.add(place)
        else:
            yield place, Query(check_id(place, "query_id", query.query_id), text)


def _judgements(name: Path, found: Any) -> Iterator[tuple[Place, Judgement]]:
    for number, judgement in enumerate(found.qrels_iter()):
        place = Place(name, f"judgement {number}")
        qid, pid = check_id(place, "query_id", judgement.query_id), check_id(place, "doc_id", judgement.doc_id)
        yield place, Judgement(qid, pid, int(judgement.relevance))


def _package() -> Any:
    try:
        import ir_datasets
    except ImportError as error:
        cure = "run `bash scripts/environment.sh ir_datasets`"
        raise UserError(f"data.source: ir_datasets needs a package that is not here; {cure}") from error
    return ir_datasets


def _load(split: str, name: str) -> Any:
    try:
        found = _package().load(name)
    except KeyError as error:
        raise UserError(
            f"data.names.{split}: ir_datasets has no data set {name!r}; choose one of https://ir-datasets.com"
        ) from error
    missing = [part for part in PARTS if not getattr(found, f"has_{part}")()]
    if missing:
        raise UserError(f"data.names.{split}: {name!r} has no {' and no '.join(missing)}; choose a part of it that has")
    return found
