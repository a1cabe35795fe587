"""Systems whose passages are encoded alone, and those that shift such vectors towards labelled queries or away."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.baselines.choice import read_choice
from gnn_encoder.baselines.query_mean import QueryMeans, Shift
from gnn_encoder.core.storage.arrays import read_manifest
from gnn_encoder.growing.encoding import TextEncoder
from gnn_encoder.growing.labels import logged_pairs, logged_queries, training_queries
from gnn_encoder.growing.made import Made, check_model, no_use_for_queries
from gnn_encoder.growing.overlay import Overlay
from gnn_encoder.growing.reading import Log
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.systems import registry

Rows = NDArray[np.int64]


class PlainGrower:
    """Grows the index of a dual-encoder; `made.Grower` tells what its methods do."""

    def __init__(self, overlay: Overlay, params: Params) -> None:
        self._system = overlay.manifest.system
        model, matrix = project.encoder(self._system), project.embeddings(self._system)
        check_model(matrix, DualEncoder.fingerprint(model), f"cache_passages@{self._system}")
        self._encoder, self._dtype = TextEncoder(model, params), read_manifest(matrix).dtype

    def add(self, passages: pl.DataFrame, old: Rows) -> Made:
        """E_P, rounded as the built matrix is."""
        vectors = self._encoder.passages(passages["title"].to_list(), passages["text"].to_list())
        return Made(vectors=vectors.astype(self._dtype).astype(np.float32))

    def known_queries(self) -> pl.LazyFrame:
        """Refuse."""
        raise no_use_for_queries(self._system)

    def log(self, queries: Log, folder: Path) -> Rows:
        """Refuse."""
        raise no_use_for_queries(self._system)

    def remake(self, passages: pl.DataFrame, rows: Rows) -> Made:
        """Refuse."""
        raise no_use_for_queries(self._system)


class ShiftedGrower:
    """Grows the index of `query_mean`; `made.Grower` tells what its methods do."""

    def __init__(self, overlay: Overlay, params: Params) -> None:
        self._overlay, system = overlay, overlay.manifest.system
        base = registry().shifted[system].base
        model, matrix, own = project.encoder(base), project.embeddings(base), project.embeddings(system)
        check_model(matrix, DualEncoder.fingerprint(model), f"cache_passages@{base}")
        check_model(own, DualEncoder.fingerprint(model), f"shift_passages@{system}")
        self._encoder, self._stored = TextEncoder(model, params), overlay.cached(matrix)
        self.cached, self._dtype = read_manifest(matrix).dtype, read_manifest(own).dtype
        self._weight = float(read_choice(own).chosen.setting["weight"])
        self._new = pl.DataFrame(schema={"pid": pl.String, "text": pl.String})

    def add(self, passages: pl.DataFrame, old: Rows) -> Made:
        """h_p + weight * the mean of the queries that are labelled with the passage's id."""
        cached = self._encoder.passages(passages["title"].to_list(), passages["text"].to_list()).astype(self.cached)
        return self._shifted(passages["pid"], cached)

    def log(self, queries: Log, folder: Path) -> Rows:
        """Take in the labels; queries without one have no part in a mean."""
        texts = queries.queries.select("text").with_row_index("query")
        joined = queries.pairs.join(texts.with_columns(pl.col("query").cast(pl.Int32)), on="query")
        self._new = joined.select("pid", "text")
        return self._overlay.find(queries.pairs["pid"])["row"].to_numpy()

    def remake(self, passages: pl.DataFrame, rows: Rows) -> Made:
        """Shift passages by the mean of their queries so far and the new ones."""
        return self._shifted(passages["pid"], self._stored.take(rows))

    def known_queries(self) -> pl.LazyFrame:
        """Training queries and logged ones."""
        tables = pl.scan_parquet(project.queries("train")), logged_queries(self._overlay)
        return pl.concat([table.select("text") for table in tables])

    def _shifted(self, pids: pl.Series, cached: NDArray[Any]) -> Made:
        labels = pl.concat([training_queries(pids), self._logged(pids), self._new])
        labels = labels.join(pl.DataFrame({"pid": pids}).with_row_index("passage"), on="pid").with_row_index("query")
        vectors = cached.astype(np.float32)
        if len(labels):
            means = QueryMeans.of(labels, self._encoder.queries(labels["text"].to_list()))
            unit_length = self._encoder.encoder.settings.similarity == "cosine"
            vectors = Shift(means=means, unit_length=unit_length, dtype=self._dtype).block(0, vectors, self._weight)
        return Made(vectors=vectors.astype(self._dtype).astype(np.float32), cached=cached)

    def _logged(self, pids: pl.Series) -> pl.DataFrame:
        """The logged queries that are labelled with passages: columns pid, text."""
        pairs = logged_pairs(self._overlay, pids)
        return pairs.join(logged_queries(self._overlay).collect(), on="query").select("pid", "text")
