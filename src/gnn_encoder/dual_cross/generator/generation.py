"""Generating queries for every passage of the corpus: in windows, resumable, shared by all devices."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray

from gnn_encoder.core import distributed
from gnn_encoder.core.records import PASSAGES, QUERIES
from gnn_encoder.core.storage.tables import iterate_texts, write_part, write_table
from gnn_encoder.dual_cross.generator.decoding import Sampling, forbidden, write_queries
from gnn_encoder.dual_cross.generator.model import QueryGenerator
from gnn_encoder.encoding.inputs import Singles
from gnn_encoder.encoding.streaming import prefetch, prepare_rows, resume_windows
from gnn_encoder.encoding.tokens import TextTokens

WINDOW = 2_048  # passages that are sorted and processed together; a kill loses one window at most
# Batches that are encoded one by one but decoded together on a CPU. A step of the decoder computes one token per query,
# and the queries of a single batch are too few to keep its cores busy.
TOGETHER = 4
TEXTS = pa.schema([("text", pa.string())])


def sampling(model: QueryGenerator, *, seed: int, views: int, top_k: int, query_length: int) -> Sampling:
    """Settings for drawing queries of at most `query_length` tokens, special ones included."""
    vocabulary = model.model.get_output_embeddings().out_features
    never, not_first = forbidden(model.tokenizer, model.end, vocabulary)
    specials = len(model.template.prefix) + len(model.template.single_suffix)
    length = query_length - specials
    return Sampling(seed=seed, views=views, top_k=top_k, length=length, never=never, not_first=not_first)


def generate_queries(
    model: QueryGenerator,
    tokens: TextTokens,
    passages: Path,
    target: Path,
    work: Path,
    how: Sampling,
    *,
    passage_length: int,
    batch_tokens: int,
) -> None:
    """Write the table of generated queries. Row r is view r % views of passage r // views, with qid "{pid}-{view}".

    Args:
        tokens: tokens of the passages.
        passages: the passages table.
        target: the table to write, in the QUERIES schema without answers.
        work: scratch folder; windows that an interrupted run finished there are kept.
        passage_length: most tokens of a passage, special ones included.
        batch_tokens: most padded tokens of passages that are encoded at a time.
    """

    def write(number: int, texts: list[str]) -> None:
        partial = work / f".{number:06d}"
        write_part(partial, TEXTS, [pa.table([texts], schema=TEXTS)])
        partial.rename(_part(work, number))

    def generate(windows: list[int]) -> Iterator[tuple[int, list[str]]]:
        return _generate(model, tokens, windows, how, passage_length, batch_tokens)

    work.mkdir(parents=True, exist_ok=True)
    rows = len(tokens)
    resume_windows(rows, WINDOW, lambda n: _part(work, n), generate, write, label="generate queries", unit="passages")
    write_table(target, QUERIES, _tables(passages, work, -(-rows // WINDOW), how.views))
    distributed.barrier()


def _generate(
    model: QueryGenerator,
    tokens: TextTokens,
    windows: list[int],
    how: Sampling,
    passage_length: int,
    batch_tokens: int,
) -> Iterator[tuple[int, list[str]]]:
    """Yield (window, its queries); the queries are ordered by passage, then by view."""

    def rows_of(window: int) -> NDArray[np.int64]:
        return np.arange(window * WINDOW, min(len(tokens), (window + 1) * WINDOW))

    inputs = Singles(tokens=tokens, template=model.template, max_length=passage_length)
    together = batch_tokens * (1 if torch.cuda.is_available() else TOGETHER)
    for window, prepared in prefetch(lambda window: prepare_rows(inputs, rows_of(window), together), windows):
        rows = rows_of(window)
        written = torch.empty(len(rows), how.views, how.length, dtype=torch.int64)
        for positions, batch in prepared:
            numbers = torch.from_numpy(rows[positions])
            written[positions] = write_queries(model, batch, numbers, how, batch_tokens=batch_tokens).cpu()
        yield window, _texts(model, written.flatten(0, 1))


def _texts(model: QueryGenerator, written: torch.Tensor) -> list[str]:
    texts = model.tokenizer.batch_decode(written, skip_special_tokens=True, clean_up_tokenization_spaces=True)
    return [" ".join(text.split()) for text in texts]


def _tables(passages: Path, work: Path, parts: int, views: int) -> Iterator[pa.Table]:
    """The texts of all windows as tables of the QUERIES schema."""
    pids = (pid for rows in iterate_texts(passages, PASSAGES, ["pid"]) for pid in rows["pid"])
    for number in range(parts):
        texts = pq.read_table(_part(work, number)).column("text")
        qids = [f"{pid}-{view}" for pid in islice(pids, len(texts) // views) for view in range(views)]
        yield pa.table([qids, texts, [[]] * len(texts)], schema=QUERIES)


def _part(work: Path, number: int) -> Path:
    return work / f"part-{number:06d}.parquet"
