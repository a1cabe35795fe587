"""The table of generated queries: written for every passage, and the nearest to their passage kept.

It is made in windows of passages, which all devices share and which an interrupted run need not make again.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray

from gnn_encoder.base import distributed
from gnn_encoder.base.matrix import Numbers, Rows, gather, resume_windows
from gnn_encoder.base.tables import QUERIES, write_part, write_table
from gnn_encoder.dual_cross.decoding import TOP_K, Sampling, forbidden, write_queries
from gnn_encoder.dual_cross.model import QueryGenerator
from gnn_encoder.text.corpus import embed_queries
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.text.inputs import Inputs, prefetch, prepare_rows
from gnn_encoder.text.tokens import TextTokens

WINDOW = 2_048  # passages that are sorted and processed together; a kill loses one window at most
# Batches that are encoded one by one but decoded together on a CPU. A step of the decoder computes one token per query,
# and the queries of a single batch are too few to keep its cores busy.
TOGETHER = 4
Windows = Callable[[Numbers], Iterator[tuple[int, pa.Table]]]  # the tables of some windows, with their numbers


def sampling(model: QueryGenerator, *, seed: int, views: int, query_length: int, top_k: int = TOP_K) -> Sampling:
    """Settings for drawing queries of at most `query_length` tokens, special ones included."""
    vocabulary = model.model.get_output_embeddings().out_features
    never, not_first = (ids.to(model.device) for ids in forbidden(model.tokenizer, model.end, vocabulary))
    length = query_length - len(model.template.prefix) - len(model.template.single_suffix)
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
        work: scratch folder.
        passage_length: most tokens of a passage, special ones included.
        batch_tokens: most padded tokens of passages that are encoded at a time.
    """
    inputs = Inputs.singles(tokens, model.template, passage_length)
    together = batch_tokens * (1 if torch.cuda.is_available() else TOGETHER)

    def generate(windows: Numbers) -> Iterator[tuple[int, pa.Table]]:
        read = prefetch(lambda window: prepare_rows(inputs, _rows_of(window, len(tokens)), together), windows)
        for window, prepared in read:
            rows = _rows_of(window, len(tokens))
            written = torch.empty(len(rows), how.views, how.length, dtype=torch.int64)
            for positions, batch in prepared:
                numbers = torch.from_numpy(rows[positions])
                written[positions] = write_queries(model, batch, numbers, how, batch_tokens=batch_tokens).cpu()
            pids = pl.scan_parquet(passages).select("pid").slice(int(rows[0]), len(rows)).collect()["pid"]
            qids = [f"{pid}-{view}" for pid in pids for view in range(how.views)]
            texts = _texts(model, written.flatten(0, 1))
            yield window, pa.table([qids, texts, [[]] * len(texts)], schema=QUERIES)

    _write_windows(target, work, len(tokens), generate, "generate queries")


def _texts(model: QueryGenerator, written: torch.Tensor) -> list[str]:
    texts = model.tokenizer.batch_decode(written, skip_special_tokens=True, clean_up_tokenization_spaces=True)
    return [" ".join(text.split()) for text in texts]


def nearest(cosines: NDArray[np.float32], repeated: NDArray[np.bool_], keep: int) -> Rows:
    """The places of the `keep` queries of each passage with the highest cosines, best first, earlier ones among equals.

    A query that repeats an earlier one of its passage would be the same view again. It comes after all others.

    *Shape:* cosines, repeated (passages, queries) -> (passages, keep).
    """
    return np.lexsort((-cosines, repeated), axis=-1)[:, :keep]


def choose_queries(
    encoder: DualEncoder,
    drafts: Path,
    tokens: TextTokens,
    embeddings: NDArray[np.floating],
    target: Path,
    work: Path,
    *,
    generated: int,
    keep: int,
    batch_tokens: int,
) -> None:
    """Write the table of kept queries: row r is view r % keep of passage r // keep, the nearest query being view 0.

    Args:
        encoder: embeds the queries.
        drafts: the table of generated queries, `generated` for each passage, in the passages' order.
        tokens: of that table.
        embeddings: of the passages, by the same encoder. *Shape:* (passages, d).
        work: scratch folder.
    """
    passages = len(embeddings)
    assert len(tokens) == passages * generated

    def choose(windows: Numbers) -> Iterator[tuple[int, pa.Table]]:
        for window in windows:
            part = _rows_of(window, passages)
            rows = np.arange(part[0] * generated, (part[-1] + 1) * generated)
            texts = pl.scan_parquet(drafts).slice(int(rows[0]), len(rows)).collect()
            asked = embed_queries(encoder, tokens, batch_tokens, rows).reshape(len(part), generated, -1)
            kept = nearest(cosines_to(gather(embeddings, part), asked), _repeated(texts["text"], generated), keep)
            yield window, texts[(kept + generated * np.arange(len(part))[:, None]).reshape(-1)].to_arrow()

    _write_windows(target, work, passages, choose, "choose queries")


def cosines_to(passages: NDArray[np.floating], queries: NDArray[np.float32]) -> NDArray[np.float32]:
    """Cosine of passages' embeddings with those of their queries. *Shape:* (n, d), (n, queries, d) -> (n, queries)."""
    wide = passages.astype(np.float32)
    lengths = np.linalg.norm(wide, axis=-1)[:, None] * np.linalg.norm(queries, axis=-1)
    found: NDArray[np.float32] = np.einsum("nd,nqd->nq", wide, queries) / np.maximum(lengths, np.finfo(np.float32).tiny)
    return found


def _repeated(texts: pl.Series, generated: int) -> NDArray[np.bool_]:
    """Which texts repeat an earlier one of the same passage. *Shape:* (n * generated,) -> (n, generated)."""
    passage = np.arange(len(texts)) // generated
    first = pl.DataFrame({"passage": passage, "text": texts}).select(pl.struct("passage", "text").is_first_distinct())
    return ~first.to_series().to_numpy().reshape(-1, generated)


def _write_windows(target: Path, work: Path, passages: int, make: Windows, label: str) -> None:
    """Write a QUERIES table window by window; those that an interrupted run left in `work` are not made again."""

    def write(path: Path, number: int, table: pa.Table) -> None:
        write_part(path, QUERIES, [table])

    name = "part-{:06d}.parquet"
    files = resume_windows(work, name, passages, WINDOW, make, write, label=label, unit="passages")
    write_table(target, QUERIES, map(pq.read_table, files))
    distributed.barrier()


def _rows_of(window: int, passages: int) -> NDArray[np.int64]:
    """The passages of a window."""
    return np.arange(window * WINDOW, min(passages, (window + 1) * WINDOW))
