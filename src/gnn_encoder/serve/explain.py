"""What the GNN did to one passage: which queries it listened to, how far its gate opened, how far it moved."""

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

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
        row = self._row(pid)
        before, rows = self._embedding(row), np.array([row])
        found = pl.DataFrame(self._inform.explain(rows, before))
        queries = found[:-1].sort("attention", descending=True, maintain_order=True)  # the last is the passage itself
        labelled = self._labelled.filter(passage=row)["query"].implode()
        shown = queries.head(SHOWN).with_columns(labelled=pl.col("query").is_in(labelled))
        texts = read_column(self._table, "text").take(shown["query"].to_numpy()).to_pylist()
        told = [
            {"text": text, "attention": attention, "labelled": is_labelled, "kind": self._kind(node)}
            for text, (node, attention, is_labelled) in zip(
                texts, shown.select("query", "attention", "labelled").iter_rows(), strict=True
            )
        ]
        return {
            "queries": told,
            "n_queries": len(queries),
            "attention_to_itself": found["attention"][-1],
            "gate": found["gate"][0],
            "shift": float(np.linalg.norm(self._inform(row, before) - before)),  # ||h' - h||
        }

    def _row(self, pid: str) -> int:
        """The passage's row in the build."""
        table = pl.scan_parquet(current(self._system).passages).select("pid").with_row_index("row")
        found = table.filter(pl.col("pid") == pid).collect(engine="streaming")["row"]
        if not len(found):
            raise UserError(f"no passage has the id {pid!r}")
        if found[0] >= self._built:
            raise UserError(f"passage {pid!r} was added after the build: the graph knows it after the next `dvc repro`")
        return int(found[0])

    def _kind(self, node: int) -> str:
        return "training" if node < self._training else "unlabelled"

    def _embedding(self, row: int) -> NDArray[np.float32]:
        """h_p of a passage of the build. *Shape:* (1, d)."""
        if self._before is not None:
            return np.array(self._before[row : row + 1], dtype=np.float32)
        return embed_passages(self._encoder, open_passages(self._encoder), self._batch_tokens, np.array([row]))
