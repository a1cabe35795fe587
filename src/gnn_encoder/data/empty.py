"""A source without its empty passages, which a user of a published data set cannot mend."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from gnn_encoder.data.rows import Judgement, Passage, Place, Source

log = logging.getLogger(__name__)


def leave_out_empty(source: Source) -> Source:
    """A source in which each passage has a text: a title alone is the text, and what has neither is left out.

    The judgements of what is left out are too, in a reading that comes after one of the passages. Memory: the ids of
    the empty passages.
    """
    empty, judged = set[str](), set[tuple[str, str, str]]()

    def passages() -> Iterator[tuple[Place, Passage]]:
        titles = 0
        for place, passage in source.passages():
            if passage.text and not passage.text.isspace():
                yield place, passage
            elif passage.title and not passage.title.isspace():
                titles += 1
                yield place, Passage(passage.pid, "", passage.title)
            else:
                empty.add(passage.pid)
        if titles:
            log.info("%d passages have a title alone, which is read as their text", titles)

    def judgements(split: str) -> Iterator[tuple[Place, Judgement]]:
        for place, judgement in source.judgements[split]():
            if judgement.pid in empty:
                judged.add((split, judgement.qid, judgement.pid))
            else:
                yield place, judgement

    def dropped() -> dict[str, int]:
        found = {"empty_passages": len(empty), "judgements_of_empty_passages": len(judged)}
        return source.dropped() | {name: count for name, count in found.items() if count}

    of_splits = {split: partial(judgements, split) for split in source.judgements}
    return replace(source, passages=passages, judgements=of_splits, dropped=dropped)
