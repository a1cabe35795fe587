"""What the GNN did to one passage: which queries it listened to, how far its gate opened, how far it moved."""

from typing import Any

import numpy as np
import polars as pl

from gnn_encoder.base.errors import UserError
from gnn_encoder.base.matrix import open_matrix
from gnn_encoder.base.tables import count_rows, read_column
from gnn_encoder.gnn.graph import open_labels, queries_of
from gnn_encoder.gnn.neighbourhood import graph_encoder, open_informer
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import load_params
from gnn_encoder.searcher import current
from gnn_encoder.text.corpus import embed_passages, open_passages

SHOWN = 50  # queries of a passage that are told, those with the most attention


class GraphExplainer:
    """A GNN-encoder's graph and network, open in the project's root."""

    def __init__(self, system: str) -> None:
        params = load_params()
        model = project.gnn(system)
        self._system, self._built = system, count_rows(project.PASSAGES)
        self._encoder, encoded = graph_encoder(system, model, params)
        self._inform = open_informer(system, model, self._encoder, params)
        self._training, self._table = count_rows(project.queries("train")), queries_of(system)
        self._labelled = open_labels()
        self._before = open_matrix(encoded) if encoded is not None else None
        self._batch_tokens = params.encoder.batch_tokens

    def explain(self, pid: str) -> dict[str, Any]:
        """What informed a passage: the attention (Eq. 4) is the mean over heads, the gate (Eq. 9) that over columns."""
        table = pl.scan_parquet(current(self._system).passages).select("pid").with_row_index("row")
        rows = table.filter(pl.col("pid") == pid).collect(engine="streaming")["row"].to_numpy().astype(np.int64)
        if not len(rows):
            raise UserError(f"no passage has the id {pid!r}")
        if rows[0] >= self._built:
            raise UserError(f"passage {pid!r} was added after the build: the graph knows it after the next `dvc repro`")
        before = (  # h_p. *Shape:* (1, d)
            embed_passages(self._encoder, open_passages(self._encoder), self._batch_tokens, rows)
            if self._before is None
            else np.array(self._before[rows], dtype=np.float32)
        )
        found = pl.DataFrame(self._inform.explain(rows, before))
        queries = found[:-1].sort("attention", descending=True, maintain_order=True)  # the last is the passage itself
        labelled = self._labelled.filter(pl.col("passage") == rows[0])["query"].implode()
        shown = queries.head(SHOWN).with_columns(labelled=pl.col("query").is_in(labelled))
        texts = read_column(self._table, "text").take(shown["query"].to_numpy()).to_pylist()
        kind = pl.when(pl.col("query") < self._training).then(pl.lit("training")).otherwise(pl.lit("unlabelled"))
        return {
            "queries": shown.select("attention", "labelled", text=pl.Series(texts), kind=kind).to_dicts(),
            "n_queries": len(queries),
            "attention_to_itself": found["attention"][-1],
            "gate": found["gate"][0],
            "shift": float(np.linalg.norm(self._inform(int(rows[0]), before) - before)),  # ||h' - h||
        }
