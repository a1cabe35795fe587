"""The corpus as a matrix on disk, E_P of every passage or view, or h'_p; it is written in windows, and resumes."""

from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gnn_encoder.base import distributed
from gnn_encoder.base import files as scratch
from gnn_encoder.base.files import MANIFEST, fingerprint
from gnn_encoder.base.matrix import (
    ArrayManifest,
    ArrayWriter,
    Matrix,
    Numbers,
    Origin,
    Rows,
    in_turn,
    is_finished,
    open_matrix,
    read_block,
    read_manifest,
)
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Encoder, Params
from gnn_encoder.text.batches import WINDOW, Inputs, encode_rows, encode_windows
from gnn_encoder.text.encoder import DualEncoder, TextModel
from gnn_encoder.text.tokens import TextTokens, open_tokens


def passage_inputs(encoder: DualEncoder, tokens: TextTokens) -> Inputs:
    """Passages alone, the input of E_P(p)."""
    assert encoder.settings.pair_length is None, "this encoder reads passages beside queries: stage encode_views"
    return Inputs.singles(tokens, encoder.template, encoder.settings.passage_length)


def origin_of(model: Path, *texts: Path) -> Origin:
    """The origin of a matrix that no graph takes part in: a dual-encoder's folder, and tables of texts."""
    return Origin(model_fingerprint=DualEncoder.passage_fingerprint(model), input_fingerprint=fingerprint(*texts))


def same_origin(origin: Origin, matrix: Path) -> Path | None:
    """`matrix` if it exists and has this origin, the same E_P and passages, so that it can be reused; else None."""
    if not (matrix / MANIFEST).is_file():
        return None
    return matrix if asdict(origin).items() <= asdict(read_manifest(matrix)).items() else None


def encode_corpus(encoder: DualEncoder, inputs: Inputs, folder: Path, *, batch_tokens: int, **how: Any) -> None:
    """Write the matrix of a corpus: what E_P makes of input i, transformed, is row i; `how`: that of `_write`."""
    work = partial(encode_windows, inputs, encoder.encode_passages, batch_tokens, WINDOW)
    _write(folder, work, (len(inputs), encoder.dimension), views=inputs.views, **how)


def transform_corpus(source: Path, folder: Path, **how: Any) -> None:
    """Write the transformed rows of an existing matrix, window by window."""
    matrix = open_matrix(source)

    def work(numbers: Numbers) -> Iterator[tuple[int, Matrix]]:
        return ((number, read_block(matrix, number * WINDOW, WINDOW)) for number in numbers)

    _write(folder, work, matrix.shape, **how)


def _write(
    folder: Path,
    work: Callable[[Numbers], Iterator[tuple[int, Matrix]]],
    shape: tuple[int, int],
    *,
    dtype: str,
    origin: Origin,
    transform: Callable[[int, Matrix], Matrix] | None = None,
    views: int = 1,
) -> None:
    """Write a matrix of the windows that `work` yields by number; those that an interrupted run wrote are kept.

    `transform` gets a window's embeddings and the number of its first row. A passage has `views` rows.
    """
    made, unit = asdict(origin), "passages" if views == 1 else "views"
    mark = fingerprint(dtype=dtype, **made)
    manifest = ArrayManifest(shape=shape, dtype=dtype, views=views, fingerprint=mark, **made)
    if is_finished(folder, manifest):
        return
    writer = ArrayWriter(folder, shape, dtype)
    waiting = [number for number in range(-(-shape[0] // WINDOW)) if number * WINDOW not in writer.done]
    distributed.barrier()  # the first rank has made the file
    for number, block in in_turn(work, waiting, shape[0], WINDOW, label=f"encode {unit}", unit=unit):
        writer.write(number * WINDOW, transform(number * WINDOW, block) if transform else block)
    if distributed.is_first():
        writer.finish(manifest)
    distributed.barrier()


def embed_queries(
    encoder: DualEncoder, queries: TextTokens | Path, batch_tokens: int, rows: Rows | None = None
) -> Matrix:
    """E_Q of some rows of a queries table, or of its tokens; None: of all. *Shape:* rows (n,) -> (n, d)."""
    tokens = open_queries(queries, encoder) if isinstance(queries, Path) else queries
    inputs = Inputs.singles(tokens, encoder.template, encoder.settings.query_length)
    chosen = np.arange(len(tokens)) if rows is None else rows
    return encode_rows(inputs, chosen, encoder.encode_queries, batch_tokens, encoder.dimension)


def embed_passages(encoder: DualEncoder, tokens: TextTokens, batch_tokens: int, rows: Rows) -> Matrix:
    """E_P of some passages, read alone. *Shape:* rows (n,) -> (n, d)."""
    return encode_rows(passage_inputs(encoder, tokens), rows, encoder.encode_passages, batch_tokens, encoder.dimension)


def open_queries(table: Path, model: TextModel) -> TextTokens:
    """Tokens of a table of queries as a model reads them, with the prefix that it puts before each text."""
    return open_tokens(table, model.tokenizer, scratch.SCRATCH / "tokens", prefix=model.prefix_of(table))


def open_passages(model: TextModel) -> TextTokens:
    """The same of the passages."""
    return open_queries(project.PASSAGES, model)


def load_encoder(model: Path, section: Encoder) -> DualEncoder:
    """A dual-encoder, for inference."""
    return DualEncoder.load(model, precision=section.precision).for_inference()


def embed_judged(encoder: DualEncoder, section: Encoder) -> dict[str, Matrix]:
    """E_Q of the dev and test queries, by split."""
    return {split: embed_queries(encoder, project.queries(split), section.batch_tokens) for split in project.JUDGED}


def write_matrix(
    encoder: DualEncoder, folder: Path, params: Params, origin: Origin, *, encoded: Path | None = None, **how: Any
) -> None:
    """Write the matrix of the passages, each read alone; `how`: `transform`.

    `encoded` is a matrix that the same weights computed of the same passages, which is read instead of encoding them.
    """
    how |= {"dtype": params.cache_passages.dtype, "origin": origin}
    if encoded is not None:
        transform_corpus(encoded, folder, **how)
    else:
        inputs = passage_inputs(encoder, open_passages(encoder))
        encode_corpus(encoder, inputs, folder, batch_tokens=params.encoder.batch_tokens, **how)
