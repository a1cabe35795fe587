"""One pass over a source's judgements, queries and passages: how many there are, and how long they are."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import polars as pl
from transformers import PreTrainedTokenizerBase

from gnn_encoder.core.progress import tqdm
from gnn_encoder.core.storage.tables import batched
from gnn_encoder.data.prepare import read_judgements
from gnn_encoder.data.rows import Passage, Query, Source
from gnn_encoder.encoding.tokens import with_title
from gnn_encoder.inspection.lengths import Lengths, Sample, measure
from gnn_encoder.models.params import Encoder

Row = TypeVar("Row")


@dataclass(frozen=True, kw_only=True)
class SplitSurvey:
    """A split of a source: its queries that have answers or a positive judgement."""

    name: str
    queries: int
    in_file: int
    judged_by: str  # what relevance is told by, and the next three count: positives or answers
    count: int
    least: int  # for one query
    most: int  # for one query
    grades: dict[int, int]  # grade -> number of judgements; empty for answers
    passages: int  # that are relevant for some query; 0 for answers
    texts: list[str]  # a random sample of the queries
    lengths: Lengths | None
    example: Query | None
    positive: str | None  # id of a passage that is relevant for the example


@dataclass(frozen=True, kw_only=True)
class PassageSurvey:
    """A source's passages."""

    count: int
    titled: int
    characters: int  # of titles and texts
    texts: list[str]  # a random sample, titles included
    lengths: Lengths | None
    duplicates: int  # with title and text of an earlier one
    first: Passage | None
    examples: dict[str, Passage]  # by id, the passages that are relevant for the splits' example queries


@dataclass(frozen=True, kw_only=True)
class Survey:
    """The survey of a whole source."""

    passages: PassageSurvey
    splits: dict[str, SplitSurvey]
    dropped: dict[str, int]  # what the source leaves out -> how often


def survey(
    source: Source, encoder: Encoder, tokenizer: PreTrainedTokenizerBase, *, sample_size: int, seed: int
) -> Survey:
    """Read a source and survey it.

    Args:
        sample_size: most texts whose tokens are counted, among the passages and among each split's queries.

    Memory: the judgements, 8 bytes a passage, and the samples.

    Raises:
        UserError: a row breaks a rule; the message names the file and the row.
    """
    splits = {
        split: _survey_split(source, split, tokenizer, Sample(sample_size, seed), encoder.query_prefix)
        for split in source.queries
    }
    wanted = {split.positive for split in splits.values() if split.positive is not None}
    passages = _survey_passages(source, tokenizer, Sample(sample_size, seed), encoder.passage_prefix, wanted)
    return Survey(passages=passages, splits=splits, dropped=source.dropped())


def _survey_split(
    source: Source, split: str, tokenizer: PreTrainedTokenizerBase, sample: Sample, prefix: str
) -> SplitSurvey:
    by_answers = split not in source.judgements
    table = read_judgements(split, source.judgements.get(split, lambda: iter(())))
    positives = table.filter(pl.col("grade") > 0)
    usable = positives["qid"].unique().implode()
    answers: list[int] = []
    in_file, example = 0, None
    for batch in batched(_progress(source.queries[split](), f"queries of {split}")):
        in_file += len(batch)
        mask = pl.Series([query.qid for query in batch], dtype=pl.String).is_in(usable)
        chosen = batch if by_answers else [query for query, keep in zip(batch, mask, strict=True) if keep]
        answers += [len(query.answers) for query in chosen]
        example = example or next(iter(chosen), None)
        sample.add([query.text for query in chosen])
    each = answers if by_answers else positives.group_by("qid").len()["len"].to_list()
    relevant = positives.filter(pl.col("qid") == example.qid)["pid"].to_list() if example else []
    return SplitSurvey(
        name=split,
        queries=sample.seen,
        in_file=in_file,
        judged_by="answers" if by_answers else "positives",
        count=sum(each),
        least=min(each, default=0),
        most=max(each, default=0),
        grades=dict(table.group_by("grade").len().sort("grade").iter_rows()),
        passages=positives["pid"].n_unique(),
        texts=sample.texts,
        lengths=measure(sample.texts, tokenizer, prefix),
        example=example,
        positive=next(iter(relevant), None),
    )


def _survey_passages(
    source: Source, tokenizer: PreTrainedTokenizerBase, sample: Sample, prefix: str, wanted: set[str]
) -> PassageSurvey:
    titled, characters, hashes = 0, 0, [np.empty(0, dtype=np.uint64)]
    first: Passage | None = None
    examples: dict[str, Passage] = {}
    for batch in batched(_progress(source.passages(), "passages")):
        titled += sum(1 for passage in batch if passage.title)
        characters += sum(len(passage.title) + len(passage.text) for passage in batch)
        hashes.append(pl.Series([f"{passage.title}\n{passage.text}" for passage in batch]).hash(seed=0).to_numpy())
        sample.add([with_title(passage.title, passage.text, tokenizer) for passage in batch])
        examples |= {passage.pid: passage for passage in batch if passage.pid in wanted}
        first = first or batch[0]
    return PassageSurvey(
        count=sample.seen,
        titled=titled,
        characters=characters,
        texts=sample.texts,
        lengths=measure(sample.texts, tokenizer, prefix),
        duplicates=sample.seen - len(np.unique(np.concatenate(hashes))),
        first=first,
        examples=examples,
    )


def _progress(rows: Iterator[tuple[object, Row]], name: str) -> Iterator[Row]:
    return (row for _, row in tqdm(rows, desc=name, unit=" rows", disable=None))
