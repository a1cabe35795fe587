"""Source `ir_datasets`: any data set of the package ir_datasets by its name (MacAvaney et al. 2021).

The names are listed at https://ir-datasets.com. Choosing this source permits downloads: the package fetches the data
sets that it does not have into a folder of its own (IR_DATASETS_HOME).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gnn_encoder.core.errors import UserError
from gnn_encoder.data.rows import NOTHING, Judgement, Passage, Place, Query, check_id, check_string, check_text

REQUIREMENT = "gnn-encoder[ir_datasets]"
PARTS = ("docs", "queries", "qrels")


class IRDatasets:
    """Reader of ir_datasets' data sets. The passages are those of the data set for split train.

    Args:
        names: each split's data set; dev may be missing.

    Raises:
        UserError: the package is not installed, or a data set is unknown or lacks passages, queries or judgements.
    """

    answered: tuple[str, ...] = ()
    shared_qids = True
    dropped = NOTHING

    def __init__(self, names: dict[str, str]) -> None:
        self.sets = {split: _load(split, name) for split, name in names.items()}
        self.names = names
        self.splits = tuple(names)

    def files(self) -> list[Path]:
        """None: ir_datasets keeps the files and checks them, so that a data set's name stands for its content."""
        return []

    def passages(self) -> Iterator[tuple[Place, Passage]]:
        """All passages. Where a document has a title but no text, the title becomes the passage's text."""
        for number, document in enumerate(self.sets["train"].docs_iter()):
            place = self._place("train", f"document {number}")
            title, text = _texts(document)
            title = check_string(place, "title", title)
            text, title = (text, title) if text.strip() else (title, "")
            yield place, Passage(check_id(place, "doc_id", document.doc_id), title, check_text(place, "text", text))

    def queries(self, split: str) -> Iterator[tuple[Place, Query]]:
        """The queries of a split."""
        for number, query in enumerate(self.sets[split].queries_iter()):
            place = self._place(split, f"query {number}")
            text = check_text(place, "text", query.default_text())
            yield place, Query(check_id(place, "query_id", query.query_id), text)

    def judgements(self, split: str) -> Iterator[tuple[Place, Judgement]]:
        """All judgements of a split."""
        for number, judgement in enumerate(self.sets[split].qrels_iter()):
            place = self._place(split, f"judgement {number}")
            qid, pid = check_id(place, "query_id", judgement.query_id), check_id(place, "doc_id", judgement.doc_id)
            yield place, Judgement(qid, pid, int(judgement.relevance))

    def _place(self, split: str, row: str) -> Place:
        return Place(Path(self.names[split]), row)


def split_names(name: str) -> dict[str, str]:
    """The data sets NAME/train, NAME/test and, where there is one, NAME/dev.

    Raises:
        UserError: ir_datasets has no NAME/train or no NAME/test.
    """
    registry = _package().registry
    found = {split: f"{name}/{split}" for split in ("train", "dev", "test") if f"{name}/{split}" in registry}
    if "train" not in found or "test" not in found:
        raise UserError(
            f"data.name: ir_datasets has no {name}/train with {name}/test; name each split's data set in data.names"
        )
    return found


def _package() -> Any:
    try:
        import ir_datasets
    except ImportError as error:
        raise UserError(
            f"data.source: ir_datasets needs a package that is not here; run `pip install {REQUIREMENT!r}`"
        ) from error
    return ir_datasets


def _load(split: str, name: str) -> Any:
    package = _package()
    try:
        found = package.load(name)
    except KeyError as error:
        raise UserError(
            f"data.names.{split}: ir_datasets has no data set {name!r}; choose one of https://ir-datasets.com"
        ) from error
    missing = [part for part in PARTS if not getattr(found, f"has_{part}")()]
    if missing:
        raise UserError(f"data.names.{split}: {name!r} has no {' and no '.join(missing)}; choose a part of it that has")
    return found


def _texts(document: Any) -> tuple[str, str]:
    """Title and text of a document; where it does not tell them apart, no title and all of its text."""
    if {"title", "text"} <= set(document._fields):
        return document.title or "", document.text or ""
    return "", document.default_text()
