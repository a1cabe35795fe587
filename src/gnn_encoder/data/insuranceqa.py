"""Source `insuranceqa`: the English part of the registry package insuranceqa-data (Feng et al. 2015, arXiv:1508.01585).

27,413 answers; 12,889 / 2,000 / 2,000 queries. Each file of the package is one JSON object, so it is read whole
(43 MB of text for the answers); its size does not grow with a user's data.
"""

import gzip
import json
import zlib
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gnn_encoder.base.errors import UserError
from gnn_encoder.data.rows import Judgement, Passage, Place, Query, Source, check_id, check_text

PACKAGE = "insuranceqa_data"
REQUIREMENT = "insuranceqa-data==1.0"
NAMES = {"train": "train", "dev": "valid", "test": "test"}


def open_insuranceqa(folder: Path | None = None) -> Source:
    """The package's files; the package itself is never imported (importing it loads everything).

    Args:
        folder: where the files lie; by default the installed package.
    """
    folder = folder or _package_folder()
    answers = folder / "answers.json.gz"
    splits = {split: folder / f"{name}.json.gz" for split, name in NAMES.items()}
    for path in (answers, *splits.values()):
        if not path.is_file():
            raise UserError(f"{path}: no such file; run `pip install --force-reinstall {REQUIREMENT}`")
    return Source(
        files=[answers, *splits.values()],
        passages=partial(_passages, answers),
        queries={split: partial(_queries, path) for split, path in splits.items()},
        judgements={split: partial(_judgements, path) for split, path in splits.items()},
    )


def _passages(path: Path) -> Iterator[tuple[Place, Passage]]:
    """All answers, without titles."""
    return ((place, Passage(pid, "", _english(place, entry))) for place, pid, entry in _entries(path))


def _queries(path: Path) -> Iterator[tuple[Place, Query]]:
    """The queries of a split. Ids are the source's: each split counts from 0."""
    return ((place, Query(qid, _english(place, entry))) for place, qid, entry in _entries(path))


def _judgements(path: Path) -> Iterator[tuple[Place, Judgement]]:
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


def _english(place: Place, entry: dict[str, Any]) -> str:
    return " ".join(check_text(place, "en", entry.get("en")).split())


def _package_folder() -> Path:
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise UserError(f"data.source: insuranceqa needs a package that is not here; run `pip install {REQUIREMENT}`")
    return Path(spec.submodule_search_locations[0])
