"""One pass over a source's judgements, queries and passages: how many there are, and how long they are."""

from dataclasses import dataclass

import polars as pl
from transformers import PreTrainedTokenizerBase

from gnn_encoder.base.distributed import tqdm
from gnn_encoder.base.tables import PASSAGES, batched
from gnn_encoder.data.identical import Finder
from gnn_encoder.data.prepare import read_judgements, read_queries
from gnn_encoder.data.rows import Passage, Source
from gnn_encoder.inspection.lengths import Lengths, Sample, measure
from gnn_encoder.pipeline.params import Encoder
from gnn_encoder.text.pretrained import Source as Model
from gnn_encoder.text.pretrained import read_stated
from gnn_encoder.text.tokens import with_title


@dataclass(frozen=True, kw_only=True)
class SplitSurvey:
    """A split of a source: its queries that have answers or a positive judgement."""

    name: str
    in_file: int  # queries, with those that have neither
    judged_by: str  # what relevance is told by: positives or answers
    each: list[int]  # how many of these a query has
    grades: dict[int, int]  # grade -> number of judgements; empty for answers
    texts: list[str]  # a random sample of the queries
    lengths: Lengths | None
    asked: pl.DataFrame  # columns qid, text, answers
    positives: pl.DataFrame  # columns qid, pid; empty for answers

    @property
    def queries(self) -> int:
        """How many they are."""
        return len(self.asked)


@dataclass(frozen=True, kw_only=True)
class PassageSurvey:
    """A source's passages."""

    count: int
    titled: int
    texts: list[str]  # a random sample, titles included
    lengths: Lengths | None
    copies: int  # with title and text of an earlier one
    first: Passage | None


@dataclass(frozen=True, kw_only=True)
class Survey:
    """The survey of a whole source."""

    passages: PassageSurvey
    splits: dict[str, SplitSurvey]
    dropped: dict[str, int]  # what the source leaves out or replaces -> how often
    own: int  # queries that are passages themselves, which are not judged relevant for them


def survey(
    source: Source, encoder: Encoder, tokenizer: PreTrainedTokenizerBase, *, sample_size: int, seed: int
) -> Survey:
    """Read a source and survey it.

    Args:
        sample_size: most texts whose tokens are counted, among the passages and among each split's queries.

    Memory: the queries and judgements, 8 bytes a passage, and the samples.
    """
    used = read_stated(Model.of(encoder)).complete(encoder)
    queries = {split: read_queries(rows) for split, rows in source.queries.items()}
    finder = Finder(pl.concat(of.select("qid", "text", split=pl.lit(split)) for split, of in queries.items()))
    passages = _survey_passages(source, tokenizer, Sample(sample_size, seed), used.passage_prefix or "", finder)
    splits = {  # judgements come after the passages, since those of empty ones are left out
        split: _survey_split(source, split, of, tokenizer, used.query_prefix or "", sample_size, seed)
        for split, of in queries.items()
    }
    asked = pl.concat(one.asked.select("qid", split=pl.lit(split)) for split, one in splits.items())
    positives = pl.concat(one.positives.with_columns(split=pl.lit(split)) for split, one in splits.items())
    own = finder.own().join(asked, on=["split", "qid"], how="semi")
    own = own.join(positives, on=["split", "qid", "pid"], how="anti").select("split", "qid")
    return Survey(passages=passages, splits=splits, dropped=source.dropped(), own=own.n_unique())


def _survey_split(
    source: Source,
    split: str,
    queries: pl.DataFrame,
    tokenizer: PreTrainedTokenizerBase,
    prefix: str,
    sample_size: int,
    seed: int,
) -> SplitSurvey:
    by_answers = split not in source.judgements
    judged = read_judgements(split, source.judgements.get(split, lambda: iter(())))
    positives = judged.filter(pl.col("grade") > 0)
    chosen = queries if by_answers else queries.filter(pl.col("qid").is_in(positives["qid"].unique().implode()))
    each = (chosen["answers"].list.len() if by_answers else positives.group_by("qid").len()["len"]).to_list()
    texts = chosen["text"].sample(min(sample_size, len(chosen)), seed=seed).to_list()
    return SplitSurvey(
        name=split,
        in_file=len(queries),
        judged_by="answers" if by_answers else "positives",
        each=each,
        grades=dict(judged.group_by("grade").len().sort("grade").iter_rows()),
        texts=texts,
        lengths=measure(texts, tokenizer, prefix),
        asked=chosen,
        positives=positives.select("qid", "pid"),
    )


def _survey_passages(
    source: Source, tokenizer: PreTrainedTokenizerBase, sample: Sample, prefix: str, finder: Finder
) -> PassageSurvey:
    titled = 0
    first: Passage | None = None
    rows = tqdm(source.passages(), desc="passages", unit=" passages")
    for batch in batched(passage for _, passage in rows):
        titled += sum(1 for passage in batch if passage.title)
        finder.add(pl.DataFrame(batch, PASSAGES.names, orient="row"))
        sample.add([with_title(passage.title, passage.text, tokenizer) for passage in batch])
        first = first or batch[0]
    return PassageSurvey(
        count=sample.seen,
        titled=titled,
        texts=sample.texts,
        lengths=measure(sample.texts, tokenizer, prefix),
        copies=len(finder.copies()[0]),
        first=first,
    )
