"""The quality of generated queries: ROUGE-L against the dev queries, and self-BLEU among a passage's own (section 5).

The texts are compared in lower case and without punctuation.
"""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

log = logging.getLogger(__name__)
NGRAMS = 4


@dataclass(frozen=True, kw_only=True)
class Quality:
    """Means over judged pairs of a query and a passage, each 0..1."""

    pairs: int
    rouge_l: list[float]  # entry i: of the best of the passage's first i + 1 generated queries
    rouge_l_first_sentence: float  # of the passage's first sentence in place of a generated query
    self_bleu: float  # 1 if all queries of each passage are the same; 0 with one view


def measure_queries(pairs: pl.DataFrame, asked_queries: Path, passages: Path, generated: Path, views: int) -> Quality:
    """Compare generated queries with the data's own queries for the same passages, and log what comes out.

    Args:
        pairs: judged-relevant pairs, columns query, passage.
        asked_queries: the queries table that the column `query` refers to.
        passages: the passages table.
        generated: the table of generated queries, in which row r is view r % views of passage r // views.
        views: generated queries per passage.
    """
    queries, found = pairs["query"].to_numpy(), pairs["passage"].to_numpy()
    asked, read = texts_of_rows(asked_queries, queries), texts_of_rows(passages, found)
    rows = found.astype(np.int64)[:, None] * views + np.arange(views)
    flat = texts_of_rows(generated, rows.reshape(-1))
    written = [flat[first : first + views] for first in range(0, len(flat), views)]
    scores = np.array([[rouge_l(one, query) for one in w] for query, w in zip(asked, written, strict=True)])
    best = np.maximum.accumulate(scores, axis=1)
    copied = [rouge_l(first_sentence(text), query) for query, text in zip(asked, read, strict=True)]
    quality = Quality(
        pairs=len(pairs),
        rouge_l=[float(value) for value in best.mean(axis=0)],
        rouge_l_first_sentence=float(np.mean(copied)),
        self_bleu=float(np.mean([self_bleu(one) for one in written])),
    )
    told = ", ".join(f"best of {k + 1}: {value:.3f}" for k, value in enumerate(quality.rouge_l))
    log.info("ROUGE-L %s; a passage's first sentence: %.3f", told, quality.rouge_l_first_sentence)
    log.info("self-BLEU-4 %.3f", quality.self_bleu)
    return quality


def rouge_l(text: str, reference: str) -> float:
    """F-measure of the longest common subsequence of words (Lin 2004)."""
    return float(_rouge().score(reference, text)["rougeL"].fmeasure)


def self_bleu(texts: Sequence[str]) -> float:
    """Mean BLEU-4 of each text against the others (Zhu et al. 2018); an n-gram order without match counts epsilon."""
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

    if len(texts) < 2:
        return 0.0
    words = [re.findall(r"[a-z0-9]+", text.lower()) for text in texts]
    smooth = SmoothingFunction().method1
    weights = (1 / NGRAMS,) * NGRAMS
    scores = [
        sentence_bleu(words[:i] + words[i + 1 :], words[i], weights, smoothing_function=smooth)
        for i in range(len(words))
    ]
    return float(np.mean(scores))


@cache
def _rouge() -> Any:
    """The ROUGE-L scorer. It is imported late, since the import takes a second and may configure logging."""
    from rouge_score.rouge_scorer import RougeScorer

    logging.getLogger("absl").setLevel(logging.WARNING)  # else it logs which tokenizer it uses

    return RougeScorer(["rougeL"], use_stemmer=False)


def first_sentence(text: str) -> str:
    """The text up to its first full stop, question mark or exclamation mark."""
    return re.split(r"(?<=[.!?])\s", text, maxsplit=1)[0]


def texts_of_rows(table: Path, rows: NDArray[np.integer]) -> list[str]:
    """Texts of some rows of a passages or queries table, in the order of `rows`. The table is streamed, not loaded."""
    wanted, inverse = np.unique(rows, return_inverse=True)
    kept = pl.scan_parquet(table).select("text").with_row_index("row").filter(pl.col("row").is_in(wanted.tolist()))
    texts = kept.sort("row").collect()["text"]
    return [texts[int(place)] for place in inverse]
