"""Lists of candidates that the teacher scores: of queries that train, and of dev queries that it is fitted on."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.core.rows import Rows, Scores
from gnn_encoder.core.storage.arrays import gather
from gnn_encoder.encoding.corpus import embed_queries
from gnn_encoder.encoding.pairs import Pairs, score_pairs
from gnn_encoder.encoding.tokens import Reader, TextTokens
from gnn_encoder.models.cross_encoder import CrossEncoder
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.training.denoise import Ranks, spread
from gnn_encoder.training.dev import retrieved_pairs
from gnn_encoder.training.params import TeacherScore
from gnn_encoder.training.teacher import Teacher, fit_teacher

AT_A_TIME = 8_192  # candidates whose embeddings are in memory together


@dataclass(frozen=True, kw_only=True)
class Scorers:
    """The models that the teacher's score is made of."""

    cross_encoder: CrossEncoder
    max_length: int  # most tokens of a pair
    retriever: tuple[DualEncoder, NDArray[Any]] | None  # the first one and its matrix; None: the teacher is M_ce alone
    batch_tokens: int
    passages: TextTokens  # as the cross-encoder reads them
    queries: Callable[[Path, Reader], TextTokens]  # opens a table of queries as a model reads it

    def score(self, lists: pl.DataFrame, queries: Path, folder: Path) -> pl.DataFrame:
        """Add the columns `logit` (M_ce's) and `retrieved` (the retriever's dot product; 0 without a retriever).

        Args:
            lists: columns query, passage; rows of the table `queries` and of the passages.
            folder: scratch folder; windows that an interrupted run scored are kept there.
        """
        pairs = Pairs.of(lists, self.queries(queries, self.cross_encoder), self.passages)
        limits = {"max_length": self.max_length, "batch_tokens": self.batch_tokens}
        logits = score_pairs(self.cross_encoder, pairs, folder, **limits)
        found = lists.with_columns(logit=pl.Series(logits), retrieved=0.0)
        if self.retriever is None:
            return found
        encoder, matrix = self.retriever
        products = dot_products(lists, encoder, self.queries(queries, encoder), matrix, self.batch_tokens)
        return found.with_columns(retrieved=pl.Series(products))


def dot_products(
    candidates: pl.DataFrame, encoder: DualEncoder, queries: TextTokens, matrix: NDArray[Any], batch_tokens: int
) -> Scores:
    """The dot products by which a dual-encoder ranks candidates. *Shape:* matrix (m, d) -> (candidates,).

    Args:
        candidates: columns query, passage.
    """
    asked, place = np.unique(candidates["query"].to_numpy().astype(np.int64), return_inverse=True)
    embedded, passages = embed_queries(encoder, queries, batch_tokens, asked), candidates["passage"].to_numpy()
    found = np.empty(len(candidates), dtype=np.float32)
    for first in range(0, len(found), AT_A_TIME):
        part = slice(first, first + AT_A_TIME)
        found[part] = np.einsum("nd,nd->n", embedded[place[part]], gather(matrix, passages[part]).astype(np.float32))
    return found


def score_lists(
    lists: pl.DataFrame,
    queries: Path,
    work: Path,
    *,
    scorers: Scorers,
    section: TeacherScore,
    dev: Callable[[], tuple[pl.DataFrame, Path]],
    title: str,
) -> pl.DataFrame:
    """Add the teacher's scores to passages of some queries: `combined` and `score`, as `Teacher.score` has them.

    Args:
        lists: columns query, passage, listed; those that are `listed` were chosen from the first retriever's passages.
        queries: the table whose rows they are.
        work: scratch folder; pairs that an interrupted run scored are not scored again.
        dev: opens what the teacher is fitted on, if it is: `dev_lists`, and the dev queries.
        title: what is fitted, in the log.
    """
    teacher = Teacher()
    if section.score != "cross_encoder":
        fitted = scorers.score(*dev(), work / "dev")
        teacher = fit_teacher(fitted, with_retriever=section.score == "sum", title=title)
    return teacher.score(scorers.score(lists, queries, work / "lists"))


def chosen_of(rows: Rows, retrieved: Rows, ranks: Ranks) -> pl.DataFrame:
    """The retrieved passages that `ranks` chooses: columns query, passage. *Shape:* rows (n,), retrieved (n, depth)."""
    rank = np.tile(np.arange(retrieved.shape[1], dtype=np.int16), len(rows))
    return spread(retrieved_pairs(rows, retrieved).with_columns(rank=pl.Series(rank)), ranks).drop("rank")


def dev_lists(chosen: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
    """What the teacher is fitted on: columns query, passage, relevant.

    Args:
        chosen: candidates of dev queries, columns query, passage.
        pairs: the relevant ones, columns query, passage.
    """
    relevant = pairs.with_columns(relevant=pl.lit(True))
    joined = chosen.join(relevant, on=["query", "passage"], how="left", maintain_order="left")
    return joined.with_columns(pl.col("relevant").fill_null(False))
