"""Candidates of many queries: searched for, spread over the ranks, scored by M_ce, and denoised (section 3.4)."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import polars as pl
import pyarrow as pa
from scipy.special import expit

from gnn_encoder.base.judgements import NO_PAIRS, Identical, relevant_pairs
from gnn_encoder.base.matrix import Matrix, Rows, Scores, open_matrix
from gnn_encoder.base.runs import write_ranking
from gnn_encoder.base.tables import (
    CANDIDATES,
    EXAMPLES,
    UNLABELLED,
    candidates_table,
    open_table,
    read_column,
    read_table,
    resume_tables,
    write_table,
)
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params, Thresholds
from gnn_encoder.pipeline.project import LEXICAL
from gnn_encoder.search.bm25 import BM25Index
from gnn_encoder.search.exact import array_top_k
from gnn_encoder.text.batches import Inputs
from gnn_encoder.text.corpus import embed_queries, open_passages, open_queries
from gnn_encoder.text.cross_encoder import CrossEncoder, score_pairs
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.train.examples import examples_from_candidates, examples_table

WINDOW = 16_384  # queries of a window: each reads all passages once, in parts of 4,096 queries, which FAISS multiplies
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

    A kill keeps the windows that are done, and ranks share them. `find` gives the best passages of some queries and
    their scores; `identical` and `pairs` say which of them `distinct` leaves out.
    """

    def search(number: int, rows: Rows) -> pa.Table:
        found = candidates_table(*find(queries[rows[0] : rows[-1] + 1]), first=int(rows[0]))
        return identical.distinct(pl.DataFrame(found), pairs).to_arrow()

    files = resume_tables(folder, CANDIDATES, len(queries), WINDOW, search, label=label, unit="queries")
    return (read_table(file, CANDIDATES).to_arrow() for file in files)


def mine_candidates(
    encoder: DualEncoder, matrix: Path, split: str, folder: Path, params: Params, depth: str
) -> Iterator[pa.Table]:
    """The best passages of a split's queries, by an encoder and its passage matrix; `depth`: the parameter of k."""
    asked = embed_queries(encoder, project.queries(split), params.encoder.batch_tokens)
    identical = Identical.read(project.IDENTICAL, split)
    # What is labelled for an unlabelled query is hidden: it only says later how often pseudo-labels are right.
    pairs = NO_PAIRS if split == UNLABELLED else relevant_pairs(*project.tables(split))
    find = partial(array_top_k, open_matrix(matrix), k=params.value(depth), name=depth)
    return find_candidates(find, asked, folder, identical, pairs, label="mine candidates")


def rank_by_words(folder: Path, runs: Path, work: Path, params: Params) -> None:
    """Write BM25's index and its runs. Of its candidates, labelled passages become positives, the others negatives."""
    index = BM25Index.build(project.PASSAGES, params.bm25)
    index.save(folder)
    asked = read_column(project.queries("train"), "text").to_list()
    identical, pairs = Identical.read(project.IDENTICAL, "train"), relevant_pairs(*project.tables("train"))
    find = partial(index.search, depth=params.bm25.depth)
    found = pl.DataFrame(pa.concat_tables(find_candidates(find, asked, work, identical, pairs, label="bm25")))
    write_table(runs / project.BM25_EXAMPLES.name, EXAMPLES, [examples_from_candidates(pairs, found).to_arrow()])
    for split in project.JUDGED:
        table, identical = project.queries(split), Identical.read(project.IDENTICAL, split)
        search = partial(index.search, read_column(table, "text").to_list())
        ranking = identical.search(search, params.retrieve.depth, index.passages)
        write_ranking(runs / project.run_file(LEXICAL, split).name, ranking, table, project.PASSAGES, LEXICAL)


def read_ranks(path: Path, *, first: int = 0, end: int | None = None) -> pl.DataFrame:
    """The candidates of the ranks first to end - 1, columns query, passage, rank, of a CANDIDATES table."""
    open_table(path, CANDIDATES)
    wanted = pl.col("rank").is_between(first, end, closed="left") if end else pl.col("rank") >= first
    return pl.scan_parquet(path).filter(wanted).select("query", "passage", "rank").collect()


def spread(candidates: pl.DataFrame, depth: int, count: int) -> pl.DataFrame:
    """So many of each query's first `depth` candidates: most from the top, ever fewer below.

    Ranks are evenly spread on a logarithmic scale: 8 of the first 50 are 0, 1, 2, 4, 8, 15, 28, 49, since the top holds
    most of the relevant passages and of the hard negatives. Columns query, passage.
    """
    ranks = np.arange(min(count, depth))
    wanted = np.rint(np.geomspace(1, depth, len(ranks))).astype(np.int64) - 1
    # Near the top the steps are below 1: each number is at least one above that before it.
    chosen = pl.col("rank").is_in(np.maximum(wanted, ranks).astype(np.int16).tolist())
    return candidates.filter(chosen).select("query", "passage")


def denoise(scored: pl.DataFrame, pairs: pl.DataFrame, section: Thresholds) -> tuple[pl.DataFrame, dict[str, int]]:
    """Turn scored candidates into the EXAMPLES table, with counts of queries, positives and negatives.

    Positives are the labelled passages and candidates scored above `positive_threshold`; negatives are unlabelled
    candidates scored below `negative_threshold`. A query without such a negative gets its lowest-scored unlabelled
    candidate that is not a positive, if there is one. A query none of whose passages is scored has null for negatives.

    `scored` has the columns query, passage, score (M_ce's, 0..1), and `pairs`, the labelled ones, the first two.
    """
    unlabelled = scored.join(pairs, on=["query", "passage"], how="anti")
    found = unlabelled.filter(pl.col("score") > section.positive_threshold).select("query", "passage")
    hard = unlabelled.filter(pl.col("score") < section.negative_threshold).select("query", "passage")
    rest = unlabelled.filter(pl.col("score") <= section.positive_threshold).join(hard, on="query", how="anti")
    fallback = rest.sort("query", "score", "passage").unique("query", keep="first").select("query", "passage")
    table = examples_table(*(pl.concat(both).sort("query", "passage") for both in ((pairs, found), (hard, fallback))))
    asked = scored["query"].unique().implode()
    table = table.with_columns(negatives=pl.when(pl.col("query").is_in(asked)).then("negatives"))
    counts = {
        "queries": len(table),
        "queries_given_their_lowest_candidate_as_negative": len(fallback),
        "queries_without_negative": int((table["negatives"].list.len() == 0).sum()),
        "labelled_positives": len(pairs),
        "denoised_positives": len(found),
        "hard_negatives": len(hard),
        "candidates_between_the_thresholds": len(unlabelled) - len(found) - len(hard),
    }
    return table, counts


def score_candidates(candidates: pl.DataFrame, queries: Path, work: Path, params: Params) -> pl.DataFrame:
    """The candidates of the table `queries` that section `denoise` has M_ce score, with its `score`, sigmoid(logit).

    `work` keeps what it has scored.
    """
    lists = spread(candidates, params.denoise.range_max, params.denoise.candidates)
    model = CrossEncoder.load(project.CROSS_ENCODER, precision=params.encoder.precision).for_inference()
    query, passage = (lists[name].to_numpy() for name in ("query", "passage"))
    texts = open_queries(queries, model), query, open_passages(model), passage
    pairs = Inputs.pairs(*texts, model.template, params.train_cross_encoder.max_length)
    return lists.with_columns(score=pl.Series(expit(score_pairs(model, pairs, work, params.encoder.batch_tokens))))
