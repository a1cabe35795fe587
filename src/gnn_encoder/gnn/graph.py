"""The query-passage graph (section 3.2): its nodes, its edges, labels, and M_ce's embeddings of the edges."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gnn_encoder.base.errors import UserError, not_built
from gnn_encoder.base.files import SCRATCH, cached, fingerprint
from gnn_encoder.base.judgements import contains, pair_keys
from gnn_encoder.base.matrix import Mask, Matrix, Rows, Scores, pair_scores, release, spans, write_header
from gnn_encoder.base.tables import (
    CANDIDATES,
    QUERIES,
    candidates_table,
    count_rows,
    open_parquet,
    open_table,
    read_table,
    write_table,
)
from gnn_encoder.pipeline import project

EDGES, VECTORS = "edges.parquet", "queries.npy"  # in the folder of the graph
KINDS = ("edges", "query_loops", "passage_loops")


class Graph:
    """Edges between n queries and m passages, k per query. Edge e joins query e // k and its passage of rank e % k.

    The first queries are the training queries. The others have no labels: they inform the passages that they retrieve,
    and no training step asks them.

    Attributes:
        passages: each query's passages; with `mgt.labels` its labelled ones, best first, then the others.
            *Shape:* (n, k) int32.
        score: retrieval score of each edge. *Shape:* (n * k,) float32.
        indptr: the edges of passage p are `edges[indptr[p] : indptr[p + 1]]`. *Shape:* (m + 1,) int64.
        edges: all edges sorted by passage; those of a passage from the highest score to the lowest, ties by edge
            number. *Shape:* (n * k,) int32, or int64 if there are 2^31 edges or more.
    """

    def __init__(self, *, passages: Rows, score: NDArray[np.floating[Any]], n_passages: int) -> None:
        self.passages = np.ascontiguousarray(passages, dtype=np.int32)
        self.score = np.ascontiguousarray(score, dtype=np.float32).reshape(-1)
        self.n, self.k = self.passages.shape
        self.m = n_passages
        flat = self.passages.reshape(-1)
        if len(flat) and not (0 <= flat.min() and flat.max() < n_passages):
            raise ValueError(f"passages are {flat.min()} to {flat.max()}: must be rows of the {n_passages} passages")
        self.indptr = starts(flat, n_passages)
        # lexsort is stable, so that ties stay in the order of edge numbers.
        order = np.lexsort((-self.score, flat))
        self.edges = order.astype(np.int32 if len(order) < 2**31 else np.int64)

    @property
    def retrieved(self) -> Rows:
        """The passages that some query retrieved, ascending. All others attend to themselves alone."""
        return np.flatnonzero(np.diff(self.indptr))

    def passage_edges(self, passages: Rows) -> tuple[Rows, Rows]:
        """The edges of some passages, and for each the place of its passage in `passages`, ascending.

        *Shape:* (b,) -> (E,), (E,).
        """
        at, place = members(self.indptr, passages)
        return self.edges[at].astype(np.int64), place

    def edges_of(self, pairs: pl.DataFrame) -> Mask:
        """Which edges join a query and a passage of some pairs, columns query, passage. *Shape:* (n * k,)."""
        keys = pair_keys(pairs, self.m)
        return contains(keys, (np.arange(self.n, dtype=np.int64)[:, None] * self.m + self.passages).reshape(-1))


class Labels:
    """The queries that are labelled with each of m passages: `pairs` has the columns query, passage."""

    def __init__(self, pairs: pl.DataFrame, n_passages: int) -> None:
        self.pairs = pairs.sort("passage", "query")
        self._queries = self.pairs["query"].to_numpy().astype(np.int64)
        self._indptr = starts(self.pairs["passage"].to_numpy(), n_passages)

    def of_passages(self, passages: Rows) -> tuple[Rows, Rows]:
        """The labelled queries of some passages, and for each the place of its passage in `passages`, ascending.

        *Shape:* (b,) -> (L,), (L,).
        """
        at, place = members(self._indptr, passages)
        return self._queries[at], place


def starts(owners: Rows, n: int) -> NDArray[np.int64]:
    """Where the members of each of n owners begin, and where all end, in a list sorted by owner. *Shape:* (n + 1,)."""
    return np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=n))])


def members(indptr: Rows, owners: Rows) -> tuple[Rows, Rows]:
    """The places of all members of some owners in such a list, and for each the place of its owner in `owners`."""
    return spans(indptr[owners], indptr[owners + 1] - indptr[owners])


def write_nodes(folder: Path, *, training: Path, unlabelled: Path, rows: Rows) -> None:
    """Write the nodes' texts: the training queries in their table's order, then ascending rows of the unlabelled."""

    def queries() -> Iterator[pa.RecordBatch]:
        yield from open_table(training, QUERIES).iter_batches()
        first = 0
        for batch in open_table(unlabelled, QUERIES).iter_batches():
            within = rows[np.searchsorted(rows, first) : np.searchsorted(rows, first + len(batch))] - first
            yield batch.take(pa.array(within))
            first += len(batch)

    write_table(folder / project.NODES.name, QUERIES, queries())


def labelled_first(
    passages: Rows, scores: Scores, pairs: pl.DataFrame, queries: Matrix, matrix: NDArray[Any]
) -> tuple[Rows, Scores]:
    """Each query's k passages, of which those that it is labelled with come first, and then the best others.

    Both parts are sorted by M_de's score. A query with more than k labelled passages keeps the k best of them.
    `queries` and `matrix` are embeddings by M_de, and `pairs` are the labelled ones, columns query, passage.

    *Shape:* passages and scores (n, k), queries (n, d), matrix (m, d) -> (n, k), (n, k).
    """
    n, k = passages.shape
    pairs = pairs.select(pl.col("query", "passage").cast(pl.Int32))
    own = pair_scores(queries, pairs["query"].to_numpy(), matrix, pairs["passage"].to_numpy())
    labelled = pairs.with_columns(score=pl.Series(own), labelled=True)
    found = pl.DataFrame(candidates_table(passages, scores)).drop("rank")
    others = found.join(pairs, on=["query", "passage"], how="anti").with_columns(labelled=False)
    every = pl.concat([labelled, others])
    every = every.sort("query", "labelled", "score", "passage", descending=[False, True, True, False])
    kept = every.filter(pl.int_range(pl.len()).over("query") < k)
    return kept["passage"].to_numpy().reshape(n, k), kept["score"].to_numpy().reshape(n, k)


def open_nodes() -> Matrix:
    """E_Q of the queries that are nodes by M_de, as the stage build_graph wrote them. *Shape:* (n, d)."""
    path = project.GRAPH / VECTORS
    if not path.is_file():
        raise not_built(path)
    found: Matrix = np.load(path)
    return found


def open_graph() -> Graph:
    """The graph as the stage build_graph wrote it: edges sorted by query, then rank."""
    path = project.GRAPH / EDGES
    edges, n = read_table(path, CANDIDATES), count_rows(project.NODES)
    try:
        passages = edges["passage"].to_numpy().reshape(n, -1)
        return Graph(passages=passages, score=edges["score"].to_numpy(), n_passages=count_rows(project.PASSAGES))
    except ValueError as error:  # numpy's, where queries do not have the same number of edges
        raise UserError(f"{path}: {error}; run build_graph again") from error


@dataclass(frozen=True)
class EdgeFeatures:
    """Cross-encoder embeddings h_{x-y}, mapped from disk."""

    edges: NDArray[np.float16]  # (n * k, d_e), rows as in the edges table
    query_loops: NDArray[np.float16]  # (n, d_e)
    passage_loops: NDArray[np.float16]  # (passages that some query retrieved, d_e)
    loop_row: NDArray[np.int32]  # (m,), each passage's row of passage_loops; -1 where no query retrieved the passage

    def of_passage_loops(self, passages: Rows) -> NDArray[np.float16]:
        """Self-loop features of some passages. *Shape:* (b,) -> (b, d_e).

        Passages that no query retrieved get zeros: the feature has no effect there.
        """
        rows = self.loop_row[passages]
        found = np.asarray(self.passage_loops[np.maximum(rows, 0)])
        found[rows < 0] = 0
        return found

    def release(self) -> None:
        """Give back the memory of what was read."""
        release(self.edges, self.query_loops, self.passage_loops)


def open_features(graph: Graph) -> EdgeFeatures:
    """Map the features of the graph's edges, unpacking them on first use."""
    folder = project.EDGE_FEATURES
    unpacked = cached(SCRATCH / "unpacked_features", folder.name, fingerprint(folder), partial(_unpack, folder), keep=1)
    edges, queries, passages = (np.load(unpacked / f"{name}.npy", mmap_mode="r") for name in KINDS)
    if len(edges) != graph.n * graph.k or len(queries) != graph.n:
        held, has = f"{len(edges)} edges and {len(queries)} queries", f"{graph.n * graph.k} edges and {graph.n} queries"
        raise UserError(f"{folder}: holds features of {held}, but the graph has {has}; run embed_edges again")
    loop_row = np.full(graph.m, -1, dtype=np.int32)
    nodes = np.load(unpacked / "nodes.npy")
    loop_row[nodes] = np.arange(len(nodes), dtype=np.int32)
    return EdgeFeatures(edges, queries, passages, loop_row)


def _unpack(folder: Path, target: Path) -> None:
    for kind in KINDS:
        parts = sorted((folder / kind).glob("part-*.parquet"))
        if not parts:
            cure = "embed_edges makes them where mgt.edge_features is cross_encoder; set it, and run embed_edges again"
            raise UserError(f"{folder / kind}: holds no features: {cure}")
        dimension = open_parquet(parts[0]).schema_arrow.field("feature").type.list_size
        with (target / f"{kind}.npy").open("wb") as file:
            write_header(file, np.dtype(np.float16), (sum(count_rows(part) for part in parts), dimension))
            for part in parts:
                for batch in open_parquet(part).iter_batches(columns=["feature"]):
                    block = batch.column("feature").flatten().to_numpy()
                    if not np.isfinite(block).all():
                        cure = "run train_cross_encoder and embed_edges again"
                        raise UserError(f"{part}: an edge feature is NaN or infinite; {cure}")
                    file.write(np.ascontiguousarray(block, dtype=np.float16).data)
    # Of passages only those have a loop that some query retrieved: the last kind's nodes.
    nodes = [pq.read_table(part, columns=["node"]).column("node").to_numpy() for part in parts]
    np.save(target / "nodes.npy", np.concatenate(nodes))
