"""One pass over a source's judgements, queries and passages: how many there are, and how long they are."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import polars as pl
from tqdm import tqdm
from transformers import PreTrainedTokenizerBase

from gnn_encoder.core.storage.tables import batched
from gnn_encoder.data.prepare import read_judgements
from gnn_encoder.data.rows import Passage, Query, Source
from gnn_encoder.encoding.tokens import with_title
from gnn_encoder.inspection.duplicates import Duplicates
from gnn_encoder.inspection.lengths import Lengths, Sample, measure
from gnn_encoder.models.params import Encoder

Row = TypeVar("Row")


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What passages are judged by in a split: judgements, or answers."""

    kind: str  # what is counted: positives or answers
    count: int
    least: int  # for one query
    most: int  # for one query
    grades: dict[int, int]  # grade -> number of judgements; empty for answers


@dataclass(frozen=True, kw_only=True)
class SplitSurvey:
    """A split of a source."""

    name: str
    queries: int  # with answers or a positive judgement
    in_file: int
    judged: Judged
    lengths: Lengths | None
    example: Query | None
    positive: str | None  # id of a passage that is relevant for the example


@dataclass(frozen=True, kw_only=True)
class PassageSurvey:
    """A source's passages."""

    count: int
    titled: int
    lengths: Lengths | None
    duplicates: int
    duplicates_exact: bool
    first: Passage | None
    examples: dict[str, Passage]  # by id, the passages that are relevant for the splits' example queries


@dataclass(frozen=True, kw_only=True)
class Survey:
    """The survey of a whole source."""

    passages: PassageSurvey
    splits: tuple[SplitSurvey, ...]
    dropped: dict[str, int]  # what the source leaves out -> how often


def survey(
    source: Source, encoder: Encoder, tokenizer: PreTrainedTokenizerBase, *, sample_size: int, seed: int
) -> Survey:
    """Read a source and survey it.

    Args:
        sample_size: most texts whose tokens are counted, among the passages and among each split's queries.

    Memory: the judgements, 16 bytes a passage up to 512 MiB, and the samples.

    Raises:
        UserError: a row breaks a rule; the message names the file and the row.
    """
    splits = tuple(
        _survey_split(source, split, tokenizer, Sample(sample_size, seed), encoder) for split in source.splits
    )
    wanted = {split.positive for split in splits if split.positive is not None}
    passages = _survey_passages(source, tokenizer, Sample(sample_size, seed), encoder, wanted)
    return Survey(passages=passages, splits=splits, dropped=dict(source.dropped))


def _survey_split(
    source: Source, split: str, tokenizer: PreTrainedTokenizerBase, sample: Sample, encoder: Encoder
) -> SplitSurvey:
    table = read_judgements(source, split)
    positive = table.filter(pl.col("grade") > 0)
    usable = positive["qid"].unique()
    in_file = 0
    answers: list[int] = []
    example: Query | None = None
    for batch in batched(_progress(source.queries(split), f"queries of {split}")):
        in_file += len(batch)
        if split in source.answered:
            chosen = batch
            answers += [len(query.answers) for query in chosen]
        else:
            mask = pl.Series([query.qid for query in batch], dtype=pl.String).is_in(usable.implode())
            chosen = [query for query, keep in zip(batch, mask, strict=True) if keep]
        example = example or next(iter(chosen), None)
        sample.add([query.text for query in chosen])
    pids = positive.filter(pl.col("qid") == example.qid)["pid"].to_list() if example else []
    return SplitSurvey(
        name=split,
        queries=sample.seen,
        in_file=in_file,
        judged=_judged_by_answers(answers) if split in source.answered else _judged_by_passages(table),
        lengths=measure(sample, tokenizer, encoder.query_length, encoder.query_prefix),
        example=example,
        positive=next(iter(pids), None),
    )


def _judged_by_answers(answers: list[int]) -> Judged:
    return Judged(
        kind="answers", count=sum(answers), least=min(answers, default=0), most=max(answers, default=0), grades={}
    )


def _judged_by_passages(table: pl.DataFrame) -> Judged:
    """Positive judgements of the queries that have any, and the grades of all judgements."""
    each = table.filter(pl.col("grade") > 0).group_by("qid").len()["len"].to_list()
    grades = dict(table.group_by("grade").len().sort("grade").iter_rows())
    return Judged(
        kind="positives", count=sum(each), least=min(each, default=0), most=max(each, default=0), grades=grades
    )


def _survey_passages(
    source: Source, tokenizer: PreTrainedTokenizerBase, sample: Sample, encoder: Encoder, wanted: set[str]
) -> PassageSurvey:
    duplicates = Duplicates()
    titled = 0
    first: Passage | None = None
    examples: dict[str, Passage] = {}
    for batch in batched(_progress(source.passages(), "passages")):
        titled += sum(1 for passage in batch if passage.title)
        duplicates.add([f"{passage.title}\n{passage.text}" for passage in batch])
        sample.add([with_title(passage.title, passage.text, tokenizer) for passage in batch])
        examples |= {passage.pid: passage for passage in batch if passage.pid in wanted}
        first = first or batch[0]
    return PassageSurvey(
        count=sample.seen,
        titled=titled,
        lengths=measure(sample, tokenizer, encoder.passage_length, encoder.passage_prefix),
        duplicates=duplicates.count(),
        duplicates_exact=duplicates.exact,
        first=first,
        examples=examples,
    )


def _progress(rows: Iterator[tuple[object, Row]], name: str) -> Iterator[Row]:
    return (row for _, row in tqdm(rows, desc=name, unit=" rows", disable=None))
