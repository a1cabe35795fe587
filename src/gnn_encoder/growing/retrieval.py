"""Who would retrieve whom by M_de: the queries of a new passage, and the passages of a new query."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

from gnn_encoder.growing.encoding import Matrix
from gnn_encoder.growing.nodes import LINKS, QueryNodes
from gnn_encoder.growing.overlay import Overlay
from gnn_encoder.growing.segment import CACHED, M_DE, REACH
from gnn_encoder.models.device import device
from gnn_encoder.pipeline import project

Rows = NDArray[np.int64]
QUERIES_AT_A_TIME = 1_024  # whose scores of a block of passages are in memory
# A passage that is added again is encoded in another batch than in the build, which moves its scores in bf16 by less.
ROUNDING = 0.01


def queries_of(nodes: QueryNodes, h_p: Matrix, labels: pl.DataFrame, before: pl.DataFrame) -> pl.DataFrame:
    """The queries that would retrieve new passages: these enter their k best passages by M_de.

    Args:
        h_p: the passages' embeddings by M_de. *Shape:* (b, d).
        labels: as `LABELS`, `passage` a row of `h_p`: these need not be among the best, where the built graph has that.
        before: columns query, passage likewise: the queries that retrieved an older version. Where that was a query's
            last passage, its own score is the one to reach.

    Returns:
        As `LINKS`, `passage` a row of `h_p`, sorted by passage and query.
    """
    found = [pl.DataFrame(part, schema=LINKS.names[:3]) for part in _above(nodes, h_p)]
    pairs = pl.concat([labels.select(before.columns).with_columns(known=True), before.with_columns(known=False)])
    pairs = pairs.unique(["query", "passage"], keep="first", maintain_order=True)
    queries, passages, known = (pairs[name].to_numpy() for name in ("query", "passage", "known"))
    score = np.einsum("ed,ed->e", nodes.take(M_DE, queries), h_p[passages])
    needed = nodes.take(REACH, queries)
    bound = np.where(known, needed[:, 1], needed[:, 0] - ROUNDING * np.abs(needed[:, 0]))
    kept = score >= bound
    explicit = pl.DataFrame({"query": queries[kept], "passage": passages[kept], "score": score[kept]})
    every = pl.concat([_typed(one) for one in (explicit, *found)]).unique(["query", "passage"], keep="first")
    marks = labels.filter("asked").select(before.columns).unique().with_columns(labelled=True)
    every = every.join(marks, on=["query", "passage"], how="left").with_columns(pl.col("labelled").fill_null(False))
    return every.sort("passage", "query")


def _above(nodes: QueryNodes, h_p: Matrix) -> Iterator[dict[str, NDArray[Any]]]:
    """The queries that score passages above what they need, as columns query, passage, score."""
    for part in nodes.parts:
        asked, needed = part.matrix(M_DE), part.reach
        for first in range(0, len(part), QUERIES_AT_A_TIME):
            block = slice(first, first + QUERIES_AT_A_TIME)
            scores = asked[block] @ h_p.T
            query, passage = np.nonzero(scores > needed[block, :1])
            yield {"query": part.first + first + query, "passage": passage, "score": scores[query, passage]}


def _typed(links: pl.DataFrame) -> pl.DataFrame:
    return links.select(pl.col("query", "passage").cast(pl.Int32), pl.col("score").cast(pl.Float32))


def passages_of(overlay: Overlay, base: str, queries: Matrix, k: int) -> tuple[Rows, Matrix]:
    """The k best live passages of each query by M_de, best first, -1 where there are fewer; all are compared.

    Args:
        base: the system that serves as M_de.
        queries: E_Q by M_de. *Shape:* (n, d).

    *Shape:* (n, k) both.
    """
    asked = torch.from_numpy(queries).to(device())
    best = torch.full((len(queries), k), -torch.inf, device=asked.device)
    rows = torch.full((len(queries), k), -1, dtype=torch.int64, device=asked.device)
    for first, block in overlay.blocks(project.embeddings(base), CACHED):
        live = np.flatnonzero(overlay.is_live(first + np.arange(len(block))))
        vectors = torch.from_numpy(block[live]).to(asked.device)
        numbers = torch.from_numpy(first + live).to(asked.device)
        for start in range(0, len(queries), QUERIES_AT_A_TIME):
            part = slice(start, start + QUERIES_AT_A_TIME)
            scores, places = (asked[part] @ vectors.T).topk(min(k, len(live)), dim=1)
            every = torch.cat([best[part], scores], dim=1), torch.cat([rows[part], numbers[places]], dim=1)
            best[part], kept = every[0].topk(k, dim=1)
            rows[part] = every[1].gather(1, kept)
    return rows.cpu().numpy(), best.cpu().numpy()
