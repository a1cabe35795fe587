"""Generated queries: views of passages (Eq. 9, 10), how good they are, and what pre-training learns from (3.5)."""

import logging
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.judgements import Identical
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import DualCross
from gnn_encoder.text.batches import Inputs
from gnn_encoder.text.corpus import open_passages, open_queries
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.text.tokens import TextTokens
from gnn_encoder.train.examples import Examples, Ragged, draw

log = logging.getLogger(__name__)


def open_generated(encoder: DualEncoder, n_passages: int, views: int) -> TextTokens:
    """Tokens of the generated queries, exactly `views` for each passage."""
    queries = open_queries(project.GENERATED_QUERIES, encoder)
    if len(queries) != n_passages * views:
        told = f"expected {n_passages * views}: dual_cross.views = {views} for each of {n_passages} passages"
        raise UserError(f"there are {len(queries)} generated queries, {told}; generate them again (`dvc repro`)")
    return queries


def view_inputs(encoder: DualEncoder, queries: TextTokens, passages: TextTokens, views: int) -> Inputs:
    """The inputs of E_P: row r is generated query r with passage r // views, d_j^i = CE_d(q_j^i + d_j) (Eq. 10)."""
    length = encoder.settings.pair_length
    assert length is not None, "this encoder reads passages alone"
    size = len(passages) * views
    return Inputs(queries, passages, size, lambda rows: (rows, rows // views), encoder.template, length, views)


def open_views(encoder: DualEncoder, section: DualCross) -> Inputs:
    """What E_P reads in search, as section `dual_cross` says."""
    passages = open_passages(encoder)
    return view_inputs(encoder, open_generated(encoder, len(passages), section.views), passages, section.views)


def generated_examples(
    n_passages: int, views: int, queries: int | None, seed: int, identical: Identical | None = None
) -> Examples:
    """Examples of generated queries: the positive of query r is the passage that it was generated from, r // views.

    So many `queries` are drawn at random, or all. There are no hard negatives. If a batch holds several queries of one
    passage, the passage counts as relevant for each of them, so that it is not a negative for any.
    """
    rows = draw(n_passages * views, queries, seed)
    passages = rows // views
    return Examples(
        queries=rows,
        positives=Ragged(passages, np.arange(len(rows) + 1)),
        negatives=Ragged(np.empty(0, dtype=np.int64), np.zeros(len(rows) + 1, dtype=np.int64)),
        known=rows * n_passages + passages,
        n_passages=n_passages,
        identical=identical or Identical(),
    )


# --- how good they are ------------------------------------------------------------------------------------------------


def measure_queries(pairs: pl.DataFrame, asked: Path, passages: Path, generated: Path, views: int) -> dict[str, Any]:
    """Compare generated queries with the data's own queries for the same passages by ROUGE-L (section 5), and log it.

    The figures are means over judged pairs, 0..1. Entry k of `rouge_l` is of the best of the passage's first k + 1
    queries; `rouge_l_first_sentence` is of the passage's first sentence in place of a query. `pairs` have the columns
    query, passage: rows of the tables `asked` and `passages`.
    """
    queries, found = pairs["query"].to_numpy(), pairs["passage"].to_numpy()
    rows = found.astype(np.int64)[:, None] * views + np.arange(views)
    wanted, read, written = (_texts(*of) for of in ((asked, queries), (passages, found), (generated, rows.reshape(-1))))
    scores = [rouge_l(text, wanted[place // views]) for place, text in enumerate(written)]
    best = np.maximum.accumulate(np.array(scores).reshape(-1, views), axis=1).mean(axis=0)
    first = [re.split(r"(?<=[.!?])\s", text, maxsplit=1)[0] for text in read]
    copied = float(np.mean([rouge_l(one, query) for one, query in zip(first, wanted, strict=True)]))
    told = ", ".join(f"best of {k + 1}: {value:.3f}" for k, value in enumerate(best))
    log.info("ROUGE-L %s; a passage's first sentence: %.3f", told, copied)
    return {"pairs": len(pairs), "rouge_l": best.tolist(), "rouge_l_first_sentence": copied}


def rouge_l(text: str, reference: str) -> float:
    """F-measure of the longest common subsequence of words, in lower case and without punctuation (Lin 2004)."""
    one, other = (re.findall(r"[^\W_]+", each.casefold()) for each in (text, reference))
    lengths = [0] * (len(other) + 1)  # of the subsequence of the words so far and of the other text's first j words
    for word in one:
        before = 0
        for j, its in enumerate(other, start=1):
            before, lengths[j] = lengths[j], before + 1 if word == its else max(lengths[j], lengths[j - 1])
    return 2 * lengths[-1] / max(1, len(one) + len(other))


def _texts(table: Path, rows: NDArray[np.integer]) -> list[str]:
    """Texts of some rows of a table, in the order of `rows`. The table is streamed, not loaded."""
    wanted, inverse = np.unique(rows, return_inverse=True)
    kept = pl.scan_parquet(table).select("text").with_row_index("row").filter(pl.col("row").is_in(wanted.tolist()))
    texts: list[str] = kept.sort("row").collect()["text"].gather(inverse).to_list()
    return texts
