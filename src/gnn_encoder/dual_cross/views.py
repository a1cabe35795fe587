"""Generated queries: views of passages (Eq. 9, 10), how good they are, and what pre-training learns from (3.5)."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.files import fingerprint
from gnn_encoder.base.judgements import Identical
from gnn_encoder.base.matrix import (
    ArrayManifest,
    Matrix,
    Numbers,
    Origin,
    Rows,
    block_size,
    open_matrix,
    read_block,
    read_manifest,
)
from gnn_encoder.pipeline.params import DualCross
from gnn_encoder.search.exact import Pool
from gnn_encoder.text.corpus import write_windows
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.text.inputs import Inputs
from gnn_encoder.text.tokens import TextTokens
from gnn_encoder.train.dev import Views
from gnn_encoder.train.examples import Examples, Ragged

PLAIN_WEIGHT = 0.5  # of the passage read alone, in the mean of its views


def pool_of(section: DualCross) -> Pool:
    """How the views' scores make a passage's."""
    return Pool(section.pool, PLAIN_WEIGHT if section.has_plain_view else None)


def view_inputs(
    encoder: DualEncoder, queries: TextTokens, passages: TextTokens, views: int, *, plain: bool = False
) -> Inputs:
    """The inputs of E_P: row r is generated query r with passage r // views, d_j^i = CE_d(q_j^i + d_j) (Eq. 10).

    Args:
        views: generated queries per passage.
        plain: each passage's views begin with the passage alone, and so are one more.
    """
    length = encoder.settings.pair_length
    if length is None:
        raise UserError(
            f"{encoder.tokenizer.name_or_path}: this encoder reads passages alone and has no views of them; "
            "run the stage cache_passages instead"
        )
    check_queries(queries, len(passages), views)
    first = int(plain)

    def rows_of(rows: Rows) -> tuple[Rows, Rows]:
        passage, view = np.divmod(rows, first + views)
        return np.where(view < first, -1, passage * views + view - first), passage

    return Inputs(
        first=queries,
        second=passages,
        size=len(passages) * (first + views),
        rows_of=rows_of,
        template=encoder.template,
        pair_length=length,
        single_length=encoder.settings.passage_length,
    )


def open_views(encoder: DualEncoder, queries: TextTokens, passages: TextTokens, section: DualCross) -> Views:
    """What E_P reads in search, as section `dual_cross` says; it raises the errors of `view_inputs`."""
    inputs = view_inputs(encoder, queries, passages, section.views, plain=section.has_plain_view)
    return Views(inputs=inputs, count=section.vectors, pool=pool_of(section))


def check_queries(queries: TextTokens, n_passages: int, views: int) -> None:
    """Make sure that there are exactly `views` generated queries for each passage."""
    if len(queries) != n_passages * views:
        raise UserError(
            f"there are {len(queries)} generated queries, expected {n_passages * views}: dual_cross.views = {views} "
            f"for each of {n_passages} passages; generate them again (`dvc repro`)"
        )


def write_means(source: Path, folder: Path, pool: Pool, *, dtype: str, origin: Origin) -> None:
    """Write the matrix of the mean of each passage's views, shared by all devices.

    Args:
        source: the matrix of views. *Shape:* (passages * views, d).
        pool: weighs the views.
        folder: where the means go; blocks that an interrupted run finished there are kept. *Shape:* (passages, d).
    """
    stored, made, matrix = read_manifest(source), asdict(origin), open_matrix(source)
    weights = pool.weights(stored.views)
    mark = fingerprint(dtype=dtype, weights=weights.tolist(), **made)
    shape = (stored.shape[0] // stored.views, stored.shape[1])
    manifest = ArrayManifest(shape=shape, dtype=dtype, fingerprint=mark, **made)

    def make(numbers: Numbers) -> Iterator[tuple[int, Matrix]]:
        for number in numbers:
            block = read_block(matrix, number * rows, rows).reshape(-1, stored.views, shape[1])
            yield number, np.einsum("pvd,v->pd", block, weights)

    window = max(1, block_size(shape[1]) // stored.views)
    rows = window * stored.views
    write_windows(folder, manifest, window, make, unit="means of views")


def generated_examples(
    n_passages: int, views: int, queries: int | None, seed: int, identical: Identical | None = None
) -> Examples:
    """Examples of generated queries: the positive of query r is the passage that it was generated from, r // views.

    There are no hard negatives. If a batch holds several queries of one passage, the passage counts as relevant for
    each of them, so that it is not a negative for any.

    Args:
        queries: number of generated queries to draw at random; None: all.
    """
    total = n_passages * views
    rows = np.arange(total)
    if queries is not None and queries < total:
        rows = np.sort(np.random.default_rng(seed).choice(total, size=queries, replace=False))
    passages = rows // views
    return Examples(
        queries=rows,
        positives=Ragged(passages, np.arange(len(rows) + 1)),
        negatives=Ragged(np.empty(0, dtype=np.int64), np.zeros(len(rows) + 1, dtype=np.int64)),
        known=rows * n_passages + passages,
        n_passages=n_passages,
        identical=identical or Identical(),
    )
