"""The choice of the reader for `data.source`, and what is left out whatever the source."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from gnn_encoder.base.errors import UserError
from gnn_encoder.data.beir import open_beir
from gnn_encoder.data.dpr import open_dpr
from gnn_encoder.data.insuranceqa import open_insuranceqa
from gnn_encoder.data.ir_datasets import open_ir_datasets, split_names
from gnn_encoder.data.msmarco import open_msmarco
from gnn_encoder.data.query_log import open_log
from gnn_encoder.data.rows import Judgement, Passage, Place, Source
from gnn_encoder.pipeline.params import Data


def open_source(data: Data) -> Source:
    """The source that `data` names, without empty passages."""
    return leave_out_empty(_opened(data))


def leave_out_empty(source: Source) -> Source:
    """A source in which each passage has a text: a title alone is the text, and what has neither is left out.

    The judgements of what is left out are too, in a reading that comes after one of the passages. Memory: the ids of
    the empty passages.
    """
    empty, judged, titles = set[str](), set[tuple[str, str, str]](), 0

    def passages() -> Iterator[tuple[Place, Passage]]:
        nonlocal titles
        titles = 0
        for place, passage in source.passages():
            if (found := passage.with_text()) is None:
                empty.add(passage.pid)
            else:
                titles += found is not passage
                yield place, found

    def judgements(split: str) -> Iterator[tuple[Place, Judgement]]:
        for place, judgement in source.judgements[split]():
            if judgement.pid in empty:
                judged.add((split, judgement.qid, judgement.pid))
            else:
                yield place, judgement

    def dropped() -> dict[str, int]:
        found = {
            "empty_passages": len(empty),
            "judgements_of_empty_passages": len(judged),
            "texts_replaced_by_titles": titles,
        }
        return source.dropped() | {name: count for name, count in found.items() if count}

    of_splits = {split: partial(judgements, split) for split in source.judgements}
    return replace(source, passages=passages, judgements=of_splits, dropped=dropped)


def _opened(data: Data) -> Source:
    match data.source:
        case "insuranceqa":
            return open_insuranceqa()
        case "beir":
            return open_beir(_folder(data, "corpus.jsonl"))
        case "log":
            return open_log(_folder(data, "corpus.jsonl"), data)
        case "msmarco":
            return open_msmarco(_folder(data, "collection.tsv"), data.test)
        case "dpr":
            return open_dpr(_folder(data, "psgs_w100.tsv"), _name(data, "nq or trivia"))
        case "ir_datasets":
            named = data.names.model_dump(exclude_none=True) if data.names else None
            return open_ir_datasets(named or split_names(_name(data, "such as beir/scifact")))


def _folder(data: Data, holds: str) -> Path:
    if data.path is None:
        needed = f"source {data.source} needs the folder that holds {holds}"
        raise UserError(f"data.path is null: {needed}; set data.path, or --path of init")
    return Path(data.path).expanduser()


def _name(data: Data, example: str) -> str:
    if data.name is None:
        raise UserError(f"data.name is null: source {data.source} needs the set's name, {example}; set data.name")
    return data.name
