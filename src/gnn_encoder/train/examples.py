"""Training examples: each query's positives and hard negatives, and all pairs that are known to be relevant."""

import zlib
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.base import distributed
from gnn_encoder.base.errors import UserError
from gnn_encoder.base.judgements import Identical, contains, pair_keys, with_rows
from gnn_encoder.base.matrix import Rows, spans
from gnn_encoder.base.tables import COUNTS, EXAMPLES, count_rows, read_table
from gnn_encoder.pipeline import project


@dataclass(frozen=True)
class Ragged:
    """Lists of different lengths: list i is `values[offsets[i] : offsets[i + 1]]`."""

    values: Rows
    offsets: Rows

    @classmethod
    def of_lists(cls, lists: pl.Series) -> Self:
        """The lists of a column."""
        ends = np.cumsum(lists.list.len().to_numpy(), dtype=np.int64)
        return cls(lists.explode(empty_as_null=False).to_numpy().astype(np.int64), np.concatenate([[0], ends]))

    def sizes(self, items: Rows) -> Rows:
        """Members of some lists. *Shape:* (n,) -> (n,)."""
        return self.offsets[items + 1] - self.offsets[items]

    def draw(self, items: Rows, count: int, generator: np.random.Generator) -> Rows:
        """`count` drawn members of each of the lists `items`: if there are fewer, first all, and then some again.

        *Shape:* items (n,) -> (n, count). Lists must not be empty.
        """
        begin, sizes = self.offsets[items][:, None], self.sizes(items)[:, None]
        start = generator.random((len(items), 1)) * sizes
        # Steps of equal size round the list from a random start hit different members as long as count <= size.
        order = start + np.arange(count) * np.maximum(1, sizes // count)
        drawn: Rows = self.values[begin + order.astype(np.int64) % sizes]
        return drawn


@dataclass(frozen=True)
class Examples:
    """Training queries with their positives and hard negatives. Item i is query row `queries[i]`."""

    queries: Rows
    positives: Ragged
    negatives: Ragged
    known: Rows  # pairs known to be relevant, as sorted keys query * n_passages + passage
    n_passages: int
    identical: Identical = field(default_factory=Identical)  # copies of relevant passages are no negatives either
    weights: NDArray[np.float64] | None = None  # how likely each of positives.values is drawn; None: all alike

    def __len__(self) -> int:
        return len(self.queries)

    def draw_positives(self, items: Rows, generator: np.random.Generator) -> Rows:
        """Draw a positive for each item, in proportion to `weights` if there are any. *Shape:* (n,) -> (n,)."""
        if self.weights is None:
            return self.positives.draw(items, 1, generator)[:, 0]
        begin, end, total = self.positives.offsets[items], self.positives.offsets[items + 1], self._total_weights
        drawn = total[begin] + generator.random(len(items)) * (total[end] - total[begin])
        # Rounding can carry a draw into the next item's list.
        chosen: Rows = (np.searchsorted(total, drawn, side="right") - 1).clip(begin, end - 1)
        return self.positives.values[chosen]

    @cached_property
    def _total_weights(self) -> NDArray[np.float64]:
        """The sum of the weights before each positive, and of all."""
        return np.concatenate([[0.0], np.cumsum(cast(NDArray[np.float64], self.weights))])

    def weighed(self, counts: pl.DataFrame) -> Self:
        """With counts as weights; a positive that M_ce found weighs as much as one logged once."""
        if counts.is_empty():
            return self
        query = np.repeat(self.queries, np.diff(self.positives.offsets))
        pairs = pl.DataFrame({"query": query, "passage": self.positives.values})
        wide = counts.with_columns(pl.col("query", "passage").cast(pl.Int64))
        found = pairs.join(wide, on=["query", "passage"], how="left", maintain_order="left")
        return replace(self, weights=found["count"].fill_null(1).to_numpy().astype(np.float64))

    def known_pairs(self) -> pl.DataFrame:
        """The pairs that are known to be relevant, columns query, passage: labelled ones, and those that M_ce found."""
        query, passage = np.divmod(self.known, self.n_passages)
        return pl.DataFrame({"query": query, "passage": passage}, schema={"query": pl.Int32, "passage": pl.Int32})

    @cached_property
    def _spared(self) -> Rows:
        """Pairs that are never negatives, as `known`: relevant, or the query itself; all copies have one key."""
        own = pair_keys(self.identical.own, self.n_passages)
        keys = np.unique(np.concatenate([self.known, own])) if len(own) else self.known
        if not len(self.identical.copies):
            return keys
        query, passage = np.divmod(keys, self.n_passages)
        return np.unique(query * self.n_passages + self.identical.first(passage))

    def is_spared(self, queries: NDArray[np.integer[Any]], passages: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """Whether each passage is no negative of each query: it, or a copy of it, is relevant, or is the query itself.

        *Shape:* of both, as numpy broadcasts them.
        """
        keys = queries.astype(np.int64) * self.n_passages + self.identical.first(passages.astype(np.int64))
        return contains(self._spared, keys)

    def spared_unlabelled(self, queries: Rows) -> tuple[Rows, Rows]:
        """Passages that are no negatives of some queries but not known to be relevant, and the place of each's query.

        *Shape:* (q,) -> (p,) twice.
        """
        if self._spared is self.known:
            return queries[:0], queries[:0]
        first, end = (np.searchsorted(self._spared, (queries + more) * self.n_passages) for more in (0, 1))
        at, query = spans(first, end - first)
        passages, place = self.identical.with_copies(self._spared[at] % self.n_passages)
        query = query[place]
        others = ~contains(self.known, queries[query] * self.n_passages + passages)
        return passages[others], query[others]


def draw(count: int, size: int | None, seed: int) -> Rows:
    """`size` of `count` rows at random, ascending; all rows if `size` is None or at least `count`."""
    if size is None or size >= count:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).choice(count, size=size, replace=False))


def examples_table(positives: pl.DataFrame, negatives: pl.DataFrame) -> pl.DataFrame:
    """The EXAMPLES table of pairs (query, passage), in whose order the lists are: of each query that has positives."""
    left = positives.group_by("query", maintain_order=True).agg(positives="passage")
    right = negatives.group_by("query", maintain_order=True).agg(negatives="passage")
    return left.join(right, on="query", how="left").sort("query").with_columns(pl.col("negatives").fill_null([]))


def examples_from_candidates(pairs: pl.DataFrame, candidates: pl.DataFrame) -> pl.DataFrame:
    """The EXAMPLES table of labelled pairs as positives and other candidates as negatives, columns query, passage."""
    return examples_table(pairs, candidates.join(pairs, on=["query", "passage"], how="anti", maintain_order="left"))


def to_examples(
    table: pl.DataFrame, n_passages: int, *, identical: Identical | None = None, scored: bool = False
) -> Examples:
    """An EXAMPLES table as arrays; `scored` leaves out queries whose candidates have no scores (`denoise.queries`)."""
    known = table.select("query", passage="positives").explode("passage").unique()
    items = table.drop_nulls("negatives") if scored else table
    return Examples(
        queries=items["query"].to_numpy().astype(np.int64),
        positives=Ragged.of_lists(items["positives"]),
        negatives=Ragged.of_lists(items["negatives"].fill_null([])),
        known=pair_keys(known, n_passages),
        n_passages=n_passages,
        identical=identical or Identical(),
    )


def open_examples(
    table: pl.DataFrame | Path, queries: Path, own: str | Path = "train", *, scored: bool = False
) -> Examples:
    """An EXAMPLES table of the table `queries`, with the counts of a log as weights; `own`: as of `Identical.read`."""
    identical, n_passages = Identical.read(project.IDENTICAL, own), count_rows(project.PASSAGES)
    table = read_table(table, EXAMPLES) if isinstance(table, Path) else table
    examples = to_examples(table, n_passages, identical=identical, scored=scored)
    return examples.weighed(with_rows(read_table(project.COUNTS, COUNTS), queries, project.PASSAGES))


@dataclass(frozen=True)
class TrainingBatch:
    """One step's queries and passages. The first b passages are the positives, in the queries' order."""

    queries: Rows  # (b,)
    passages: Rows  # (b * (1 + negatives),)

    @property
    def asked(self) -> Rows:
        """The query that each passage was drawn for, as positive or hard negative. *Shape:* as `passages`."""
        return np.concatenate([self.queries, np.repeat(self.queries, self.negatives)])

    @property
    def negatives(self) -> int:
        """Hard negatives of a query."""
        return len(self.passages) // len(self.queries) - 1


def draw_batch(examples: Examples, items: Rows, negatives: int, generator: np.random.Generator) -> TrainingBatch:
    """Draw one positive and `negatives` hard negatives for each item; one with fewer gets random passages besides."""
    positives, sizes = examples.draw_positives(items, generator), examples.negatives.sizes(items)[:, None]
    hard = generator.integers(examples.n_passages, size=(len(items), negatives))
    if negatives:
        some = sizes[:, 0] > 0
        drawn = examples.negatives.draw(items[some], negatives, generator)
        hard[some] = np.where(np.arange(negatives) < sizes[some], drawn, hard[some])
    return TrainingBatch(examples.queries[items], np.concatenate([positives, hard.reshape(-1)]))


def seed_of(*numbers: int) -> int:
    """A seed of 32 bits that each of some numbers changes."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def stream(seed: int, section: str) -> int:
    """The seed of the batches of a section of params.yaml: two trainings draw different ones."""
    return seed_of(seed, zlib.crc32(section.encode()))


def local_share(items: Rows) -> Rows:
    """This rank's part of a batch; the parts of two ranks differ by at most one item."""
    ranks = distributed.world_size()
    if len(items) < ranks:
        cure = "raise batch_size in params.yaml, and mgt.beta, of whose folds it is a part, or start fewer"
        raise UserError(f"a batch of {len(items)} queries is too small for {ranks} processes; {cure}")
    return np.array_split(items, ranks)[distributed.rank()]


def local_part(batch: TrainingBatch) -> tuple[Rows, Rows]:
    """The places of this rank's queries in a batch, and of the passages that were drawn for them, positives first."""
    asked = local_share(np.arange(len(batch.queries)))
    others = len(batch.queries) + asked[:, None] * batch.negatives + np.arange(batch.negatives)
    return asked, np.concatenate([asked, others.reshape(-1)])


class BatchSampler:
    """The batches of a training: all items in each pass, shuffled anew, and split evenly.

    A pass has round(items / batch_size) batches: of few items they may be half larger than asked, or a third smaller.
    """

    def __init__(self, items: int, batch_size: int, seed: int) -> None:
        self._items, self._seed = items, seed
        self._per_epoch = max(1, round(items / batch_size))
        self._at: tuple[int, Rows] = (-1, np.empty(0, dtype=np.int32))  # an epoch and its order, which is made once
        local_share(np.arange(items // self._per_epoch))  # the smallest batch; an error is told before the training

    def items(self, number: int) -> Rows:
        """The items of one step: those of an epoch, shuffled, are split into batches of nearly the same size."""
        epoch, within = divmod(number, self._per_epoch)
        if epoch != self._at[0]:
            narrow = np.arange(self._items, dtype=np.int32 if self._items < 2**31 else np.int64)
            self._at = (epoch, np.random.default_rng([self._seed, epoch]).permutation(narrow))
        size, larger = divmod(self._items, self._per_epoch)
        first = within * size + min(within, larger)
        return self._at[1][first : first + size + (within < larger)].astype(np.int64)

    def draw(self, examples: Examples, number: int, negatives: int) -> TrainingBatch:
        """What all ranks together train on in one step."""
        return draw_batch(examples, self.items(number), negatives, np.random.default_rng([self._seed, number]))
