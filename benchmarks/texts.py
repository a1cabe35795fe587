"""Texts for the benchmarks: InsuranceQA from its package, so that no stage need have run, and synthetic ones."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from gnn_encoder.base.tables import PASSAGES, QUERIES, write_table
from gnn_encoder.data.formats import open_insuranceqa

SEED = 13
COMMON = 33  # the first words of Zipf's law are stop words, and left out
PART = 10_000


def sample_passages(size: int) -> list[str]:
    """Answers drawn at random, white space collapsed, in the source's order."""
    return _sample((passage.text for _, passage in open_insuranceqa().passages()), size)


def sample_queries(size: int) -> list[str]:
    """Training queries drawn at random."""
    return _sample((query.text for _, query in open_insuranceqa().queries["train"]()), size)


def sample_pairs(size: int) -> dict[str, list[str]]:
    """Training queries drawn at random, in turns where these are few: each with a relevant answer and a random one."""
    source, draw = open_insuranceqa(), np.random.default_rng(SEED)
    passages = {passage.pid: passage.text for _, passage in source.passages()}
    relevant = {one.qid: one.pid for _, one in source.judgements["train"]()}
    asked = [(query.text, passages[relevant[query.qid]]) for _, query in source.queries["train"]()]
    chosen, others = draw.permutation(len(asked)), list(passages.values())
    pairs = [asked[chosen[place % len(asked)]] for place in range(size)]
    drawn = [others[row] for row in draw.integers(len(others), size=size)]
    return {"anchor": [one for one, _ in pairs], "positive": [one for _, one in pairs], "negative": drawn}


def synthetic(count: int, words: int, *, vocabulary: int, seed: int) -> Iterator[list[str]]:
    """Texts of so many words that are drawn by Zipf's law, some texts at a time."""
    generator, names = np.random.default_rng(seed), np.array([f"w{i}" for i in range(vocabulary)])
    share = np.cumsum(1 / (np.arange(vocabulary) + COMMON))
    for first in range(0, count, PART):
        drawn = np.searchsorted(share, generator.random((min(PART, count - first), words)) * share[-1])
        yield [" ".join(row) for row in names[drawn.clip(max=vocabulary - 1)]]


def write_passages(path: Path, texts: list[str]) -> None:
    """Texts as a passages table, without titles. The file must be called passages.parquet."""
    columns = [[str(row) for row in range(len(texts))], [""] * len(texts), texts]
    write_table(path, PASSAGES, [pa.table(columns, schema=PASSAGES)])


def write_queries(path: Path, texts: list[str]) -> None:
    """Texts as a queries table."""
    answers: list[list[str]] = [[]] * len(texts)
    write_table(path, QUERIES, [pa.table([[str(row) for row in range(len(texts))], texts, answers], schema=QUERIES)])


def cosines(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Row by row. *Shape:* (n, d), (n, d) -> (n,)."""
    return (one * other).sum(1) / (np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1))


def _sample(texts: Iterable[str], size: int) -> list[str]:
    every = list(texts)
    rows = np.random.default_rng(SEED).choice(len(every), size=min(size, len(every)), replace=False)
    return [every[row] for row in np.sort(rows)]
