"""What a data set holds, as far as costs and choices depend on it: from its source, or from the prepared tables."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np
import polars as pl
from tqdm import tqdm
from transformers import PreTrainedTokenizerBase

from gnn_encoder.core.errors import UserError
from gnn_encoder.core.records import SPLITS, UNLABELLED, open_parquet
from gnn_encoder.core.storage.tables import batched, count_rows
from gnn_encoder.data.prepare import read_judgements
from gnn_encoder.data.rows import Source
from gnn_encoder.data.unlabelled import own_file, read_texts
from gnn_encoder.encoding.tokens import with_title
from gnn_encoder.inspection.lengths import Sample, count_tokens
from gnn_encoder.pipeline.params import Params
from gnn_encoder.planning.tokens import Tokens, pairs_of

Row = TypeVar("Row")
SAMPLE = 10_000  # most texts whose tokens are counted
GROUPS = 8  # row groups of the prepared passages that the sample is drawn from


@dataclass(frozen=True, kw_only=True)
class Facts:
    """A data set as stage prepare makes it."""

    passages: int
    train: int  # queries that training uses
    available: int  # training queries that the source has
    dev: int
    test: int
    labels: int  # pairs of a query and a passage that is relevant for it, before training queries are sampled
    labelled_queries: int
    labelled_passages: int
    passage_tokens: Tokens
    query_tokens: Tokens
    passage_bytes: float  # mean size of title and text
    unlabelled: int = 0  # queries whose labels are hidden, and the user's own without labels
    left_out: Mapping[str, int] = field(default_factory=dict)  # what of the source is not used: how many, by why

    @cached_property
    def pair_tokens(self) -> Tokens:
        """Tokens of a query and a passage together."""
        return pairs_of(self.query_tokens, self.passage_tokens)

    @property
    def labels_a_query(self) -> float:
        """Relevant passages of a training query."""
        return self.labels / max(1, self.labelled_queries)

    @property
    def queries_a_labelled_passage(self) -> float:
        """How often a labelled passage repeats among the labels."""
        return self.labels / max(1, self.labelled_passages)

    def sampled(self, train: int, hidden_fraction: float) -> "Facts":
        """The same where training uses other many queries.

        Args:
            hidden_fraction: pair.unlabelled_fraction, which says how many of the others become queries without labels.
        """
        more = hidden(self.available, train, hidden_fraction) - hidden(self.available, self.train, hidden_fraction)
        return replace(self, train=train, unlabelled=self.unlabelled + more)

    def nodes(self, unlabelled: int | None) -> int:
        """Queries of the graph: those of training, and of those without labels all or so many."""
        return self.train + (self.unlabelled if unlabelled is None else min(unlabelled, self.unlabelled))


def hidden(available: int, train: int, fraction: float) -> int:
    """Training queries whose labels stage prepare hides: of those that training leaves out, at most a share of all."""
    return min(available - train, round(fraction * available))


def survey_source(source: Source, params: Params, tokenizer: PreTrainedTokenizerBase) -> Facts:
    """Read a source once. Memory: the judgements, and the samples.

    Raises:
        UserError: a row breaks a rule; the message names the file and the row.
    """
    data = params.data
    judged = {split: read_judgements(source, split).filter(pl.col("grade") > 0) for split in source.splits}
    for split, table in judged.items():
        if split not in source.answered and table.is_empty():
            where = f"{data.path or data.source}: no judgement of the {split} queries has a grade above 0"
            raise UserError(f"{where}, so that nothing is relevant; correct the judgements")
    counts = {
        split: _count(source.queries(split)) if split in source.answered else table["qid"].n_unique()
        for split, table in judged.items()
    }
    queries = Sample(SAMPLE, params.seed)
    for batch in batched(_rows(source.queries("train"), "queries")):
        queries.add([query.text for query in batch])
    passages, size = Sample(SAMPLE, params.seed), 0
    for rows in batched(_rows(source.passages(), "passages")):
        texts = [with_title(passage.title, passage.text, tokenizer) for passage in rows]
        size += sum(len(text.encode()) for text in texts)
        passages.add(texts)
    available, dev = counts["train"], counts.get("dev")
    if dev is None:
        dev = max(1, round(data.dev_fraction * available))
        available -= dev
    train = min(available, data.train_queries or available)
    own = own_file(data.unlabelled)
    return Facts(
        passages=passages.seen,
        train=train,
        unlabelled=hidden(available, train, params.pair.unlabelled_fraction) + (_count(read_texts(own)) if own else 0),
        available=available,
        dev=dev,
        test=counts["test"],
        labels=len(judged["train"].unique(["qid", "pid"])),
        labelled_queries=judged["train"]["qid"].n_unique(),
        labelled_passages=judged["train"]["pid"].n_unique(),
        passage_tokens=Tokens.of(count_tokens(passages.texts, tokenizer, params.encoder.passage_prefix)),
        query_tokens=Tokens.of(count_tokens(queries.texts, tokenizer, params.encoder.query_prefix)),
        passage_bytes=size / max(1, passages.seen),
        left_out=dict(source.dropped),
    )


def survey_prepared(folder: Path, params: Params, tokenizer: PreTrainedTokenizerBase) -> Facts:
    """Read the tables that stage prepare wrote; of a large corpus, some parts."""
    queries = {split: folder / "queries" / f"{split}.parquet" for split in SPLITS}
    counts = {split: count_rows(path) for split, path in queries.items()}
    labels = pl.read_parquet(folder / "qrels" / "train.parquet").filter(pl.col("grade") > 0)
    asked, read = Sample(SAMPLE, params.seed), Sample(SAMPLE, params.seed)
    asked.add([row["text"] for row in _spread(queries["train"], ["text"])])
    passages = folder / "passages.parquet"
    read.add([with_title(row["title"], row["text"], tokenizer) for row in _spread(passages, ["title", "text"])])
    return Facts(
        passages=count_rows(passages),
        train=counts["train"],
        unlabelled=count_rows(folder / "queries" / f"{UNLABELLED}.parquet"),
        available=counts["train"],
        dev=counts["dev"],
        test=counts["test"],
        labels=len(labels),
        labelled_queries=labels["qid"].n_unique(),
        labelled_passages=labels["pid"].n_unique(),
        passage_tokens=Tokens.of(count_tokens(read.texts, tokenizer, params.encoder.passage_prefix)),
        query_tokens=Tokens.of(count_tokens(asked.texts, tokenizer, params.encoder.query_prefix)),
        passage_bytes=float(np.mean([len(text.encode()) for text in read.texts])),
        left_out=json.loads((folder / "statistics.json").read_text(encoding="utf-8")).get("left_out", {}),
    )


def _spread(path: Path, columns: list[str]) -> list[dict[str, str]]:
    """The rows of a table, or of GROUPS of its parts that lie evenly over it."""
    table = open_parquet(path)
    groups = np.unique(np.linspace(0, table.num_row_groups - 1, GROUPS).round().astype(int))
    rows: list[dict[str, str]] = table.read_row_groups(groups.tolist(), columns=columns).to_pylist()
    return rows


def _rows(rows: Iterable[tuple[object, Row]], name: str) -> Iterator[Row]:
    return (row for _, row in tqdm(rows, desc=name, unit=" rows", disable=None))


def _count(rows: Iterable[object]) -> int:
    return sum(1 for _ in rows)
