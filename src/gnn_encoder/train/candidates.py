"""Candidates of many queries: searched for, spread over the ranks, and denoised by the teacher (section 3.4, RocketQA).

Those of the dev sample, by which trainings are scored, are chosen here too. Nothing here needs a model.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from gnn_encoder.base.judgements import Identical
from gnn_encoder.base.matrix import Matrix, Rows, Scores, resume_windows
from gnn_encoder.base.tables import CANDIDATES, candidates_table, open_table, read_table, write_part
from gnn_encoder.train.examples import examples_table

WINDOW = 16_384  # queries of a window: each reads all passages once, in parts of 4,096 queries, which FAISS multiplies
POOL_DEPTH = 10  # passages that a dev query adds to a pool; the systems that make it share them
Searched = TypeVar("Searched", Matrix, list[str])  # queries as vectors or as texts


def find_candidates(
    find: Callable[[Searched], tuple[Rows, Scores]],
    queries: Searched,
    folder: Path,
    identical: Identical,
    pairs: pl.DataFrame,
    *,
    label: str,
) -> Iterator[pa.Table]:
    """Search for all queries that `folder` has no candidates of yet, and read those of all, window by window.

    A kill keeps the windows that are done, and ranks share them.

    Args:
        find: the best passages of some of the queries and their scores, as `candidates_table` takes them.
        folder: gets a CANDIDATES table a window.
        identical, pairs: tell which candidates are left out, as for `Identical.distinct`.
        label: of the progress bar.
    """

    def search(numbers: Iterator[int]) -> Iterator[tuple[int, pl.DataFrame]]:
        for number in numbers:
            first = number * WINDOW
            found = candidates_table(*find(queries[first : first + WINDOW]), first=first)
            yield number, identical.distinct(pl.DataFrame(found), pairs)

    def write(path: Path, number: int, found: pl.DataFrame) -> None:
        write_part(path, CANDIDATES, [found.to_arrow()])

    name = "candidates-{:06d}.parquet"
    files = resume_windows(folder, name, len(queries), WINDOW, search, write, label=label, unit="queries")
    return (read_table(file, CANDIDATES).to_arrow() for file in files)


def read_top(path: Path, ranks: int | None) -> pl.DataFrame:
    """The first `ranks` candidates of each query, from a CANDIDATES table that may hold many more; None: all."""
    open_table(path, CANDIDATES)
    table = pl.scan_parquet(path)
    return (table if ranks is None else table.filter(pl.col("rank") < ranks)).collect()


def spread(candidates: pl.DataFrame, depth: int, count: int) -> pl.DataFrame:
    """So many of each query's first `depth` candidates: most from the top, ever fewer below.

    The top holds most of the relevant passages, labelled or not, and of the negatives that are hard. Ranks are evenly
    spread on a logarithmic scale: 8 of the first 50 are 0, 1, 2, 4, 8, 15, 28, 49.
    """
    ranks = np.arange(min(count, depth))
    wanted = np.rint(np.geomspace(1, depth, len(ranks))).astype(np.int64) - 1 if count > 1 else ranks
    # Near the top the steps are below 1: each number is at least one above that before it.
    return candidates.filter(pl.col("rank").is_in(np.maximum(wanted, ranks).astype(np.int16).tolist()))


def denoise(
    scored: pl.DataFrame,
    pairs: pl.DataFrame,
    *,
    positive_threshold: float,
    negative_threshold: float,
    relative: float | None = None,
) -> tuple[pl.DataFrame, dict[str, int]]:
    """Turn scored candidates into the EXAMPLES table, with counts of queries, positives and negatives.

    Positives are the labelled passages and candidates scored above `positive_threshold`; negatives are unlabelled
    candidates scored below `negative_threshold`. A query without such a negative gets its lowest-scored unlabelled
    candidate that is not a positive, if there is one. A query none of whose passages is scored has null for negatives.

    Args:
        scored: columns query, passage, score (the teacher's, 0..1).
        pairs: labelled pairs, columns query, passage; those that `scored` holds are what `relative` reads.
        relative: a negative scores below this share of its query's best labelled passage, instead of below
            `negative_threshold` (positive-aware mining: de Souza P. Moreira et al. 2024, arXiv:2407.15831), and never
            above `positive_threshold`. Queries whose labelled passages `scored` does not hold keep the threshold.
    """
    unlabelled = scored.join(pairs, on=["query", "passage"], how="anti")
    found = unlabelled.filter(pl.col("score") > positive_threshold).select("query", "passage")
    below = pl.lit(negative_threshold)
    if relative is not None:
        best = scored.join(pairs, on=["query", "passage"], how="semi").group_by("query").agg(best=pl.col("score").max())
        unlabelled = unlabelled.join(best, on="query", how="left")
        share = pl.min_horizontal(relative * pl.col("best"), positive_threshold)
        below = pl.when(pl.col("best").is_null()).then(negative_threshold).otherwise(share)
    hard = unlabelled.filter(pl.col("score") < below).select("query", "passage")
    rest = unlabelled.filter(pl.col("score") <= positive_threshold).join(hard, on="query", how="anti")
    fallback = (
        rest.sort("query", "score", "passage").group_by("query", maintain_order=True).first().select("query", "passage")
    )
    table = examples_table(*(pl.concat(both).sort("query", "passage") for both in ((pairs, found), (hard, fallback))))
    asked = pl.col("query").is_in(scored["query"].unique().implode())
    table = table.with_columns(negatives=pl.when(asked).then("negatives"))
    queries = scored["query"].n_unique()
    counts = {
        "queries": len(table),
        "queries_without_positive_left_out": queries - scored.join(table, on="query", how="semi")["query"].n_unique(),
        "queries_given_their_lowest_candidate_as_negative": len(fallback),
        "queries_without_negative": int((table["negatives"].list.len() == 0).sum()),
        "labelled_positives": len(pairs),
        "denoised_positives": len(found),
        "hard_negatives": len(hard),
        "candidates_between_the_thresholds": len(unlabelled) - len(found) - len(hard),
    }
    return table, counts


def sample_queries(pairs: pl.DataFrame, size: int, seed: int) -> Rows:
    """A fixed random sample of the judged queries, of those with a row in `pairs`."""
    judged = pairs["query"].unique().sort().to_numpy().astype(np.int64)
    return np.sort(np.random.default_rng(seed).permutation(judged)[:size])


def retrieved_pairs(queries: Rows, retrieved: NDArray[np.integer[Any]]) -> pl.DataFrame:
    """Queries with their retrieved passages, columns query, passage. *Shape:* queries (q,), retrieved (q, depth)."""
    columns = {"query": np.repeat(queries, retrieved.shape[1]), "passage": retrieved.reshape(-1)}
    return pl.DataFrame({name: rows.astype(np.int32) for name, rows in columns.items()})


def candidates_of(queries: Rows, pairs: pl.DataFrame, retrieved: pl.DataFrame) -> pl.DataFrame:
    """The relevant and the `retrieved` pairs of the sampled queries, as the DEV_CANDIDATES table.

    `pairs` and `retrieved` have the columns query, passage. *Shape:* queries (q,).
    """
    relevant = pairs.select("query", "passage", relevant=pl.lit(True))
    others = retrieved.select("query", "passage").unique().join(pairs, on=["query", "passage"], how="anti")
    found = pl.concat([relevant, others.with_columns(relevant=pl.lit(False))])
    return found.filter(pl.col("query").is_in(queries.tolist())).sort("query", "passage")
