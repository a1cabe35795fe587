"""What the GNN did to one passage: which queries it listened to, how far its gate opened, how far it moved.

It needs torch, and so it is computed in a process of its own: explain_worker.py.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

from gnn_encoder.core import project
from gnn_encoder.core.errors import UserError
from gnn_encoder.core.judgements import relevant_pairs
from gnn_encoder.core.params import load_params
from gnn_encoder.core.storage.arrays import open_matrix
from gnn_encoder.core.storage.tables import count_rows
from gnn_encoder.encoding.corpus import embed_passages
from gnn_encoder.encoding.matrix import same_encoder
from gnn_encoder.encoding.texts import open_passages
from gnn_encoder.graph.artifacts import GraphArtifacts
from gnn_encoder.graph.corpus import load_encoder, open_informer
from gnn_encoder.graph.network import QueryPassageGNN

SHOWN = 50  # queries of a passage that are told, those with the most attention


@dataclass
class ByHead:
    """Notes the attention of each head while a network explains, which itself tells their mean.

    *Shape:* `last` (edges + passages, heads): first of the queries, then of the passages themselves.
    """

    last: NDArray[np.float32] = field(default_factory=lambda: np.empty((0, 0), np.float32))

    def listen(self, gnn: QueryPassageGNN) -> None:
        """Note what the layer of Eq. 8 computes from now on."""
        compute = gnn.passage_attention.weights

        def noted(*arguments: Any, **named: Any) -> torch.Tensor:
            weights = compute(*arguments, **named)
            self.last = weights.detach().float().cpu().numpy()
            return weights

        gnn.passage_attention.weights = noted  # type: ignore[method-assign]


class GraphExplainer:
    """A GNN-encoder's graph and network, open in the project's root."""

    def __init__(self, system: str) -> None:
        params = load_params()
        source, model = GraphArtifacts(name=system), project.gnn(system)
        self._encoder = load_encoder(model, params)
        self._inform = open_informer(source, model, self._encoder, params)
        self._heads = ByHead()
        self._heads.listen(self._inform._gnn)  # which it keeps to itself: nothing else asks for single heads
        self._nodes, self._table = source.nodes(), source.queries
        pairs = relevant_pairs(project.queries("train"), project.qrels("train"), project.PASSAGES)
        self._labelled = self._nodes.labelled_pairs(pairs)
        encoded = same_encoder(model / "encoder", project.embeddings(source.base))
        self._before = open_matrix(encoded) if encoded is not None else None
        self._batch_tokens = params.encoder.batch_tokens

    def explain(self, row: int, pid: str) -> dict[str, Any]:
        """All that is known of the passage in a row.

        Raises:
            UserError: the row holds another passage.
        """
        if row >= count_rows(project.PASSAGES) or _rows_of(project.PASSAGES, ["pid"], [row])[0]["pid"] != pid:
            raise UserError(f"passage {pid!r} is not in row {row} of {project.PASSAGES}: the project has changed")
        before = self._embedding(row)
        after = self._inform(row, before)
        table = pl.DataFrame(self._inform.explain(np.array([row]), before))
        asked = table.height - 1  # the last row is the passage itself
        queries = table["query"].to_numpy()[:asked]
        order = np.argsort(-table["attention"].to_numpy()[:asked], kind="stable")[:SHOWN]
        return {
            "queries": self._queries(row, queries[order], table["attention"].to_numpy()[order], order),
            "n_queries": asked,
            "attention_of_the_others": float(np.delete(table["attention"].to_numpy()[:asked], order).sum()),
            "attention_to_itself": float(table["attention"][asked]),
            "attention_to_itself_by_head": self._heads.last[asked].tolist(),
            "gate": float(table["gate"][0]),
            "shift": float(np.linalg.norm(after.astype(np.float64) - before)),
        }

    def _queries(
        self, row: int, nodes: NDArray[np.int32], attention: NDArray[np.float32], order: NDArray[np.int64]
    ) -> list[dict[str, Any]]:
        labelled = set(self._labelled.filter(passage=row)["query"].to_list())
        texts = _rows_of(self._table, ["qid", "text"], nodes.tolist())
        return [
            {
                "qid": text["qid"],
                "text": text["text"],
                "attention": float(attention[place]),
                "by_head": self._heads.last[order[place]].tolist(),
                "labelled": node in labelled,
                "kind": self._kind(node),
            }
            for place, (node, text) in enumerate(zip(nodes.tolist(), texts, strict=True))
        ]

    def _kind(self, node: int) -> str:
        if node < self._nodes.training:
            return "training"
        return "generated" if self._nodes.sources[node - self._nodes.training] >= 0 else "unlabelled"

    def _embedding(self, row: int) -> NDArray[np.float32]:
        """h_p. *Shape:* (1, d)."""
        if self._before is not None:
            return np.asarray(self._before[row : row + 1], dtype=np.float32)
        return embed_passages(self._encoder, open_passages(self._encoder), self._batch_tokens, np.array([row]))


def _rows_of(table: Path, columns: list[str], rows: list[int]) -> list[dict[str, Any]]:
    """Some rows of a table in the order asked for, without `TableRows`, which FAISS comes with."""
    wanted = pl.DataFrame({"row": rows}, schema={"row": pl.UInt32})
    found = pl.scan_parquet(table).select(columns).with_row_index("row").filter(pl.col("row").is_in(rows)).collect()
    return wanted.join(found, on="row", how="left", maintain_order="left").select(columns).to_dicts()


class Explainers:
    """The explainers of several systems, each opened when it is asked for first."""

    def __init__(self) -> None:
        self._open: dict[str, GraphExplainer] = {}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer one message: `system` alone opens its explainer; with `row` and `pid`, a passage is explained."""
        try:
            explainer = self._opened(str(request["system"]))
            return {"found": explainer.explain(request["row"], request["pid"]) if "row" in request else {}}
        except UserError as error:
            return {"error": str(error)}

    def _opened(self, system: str) -> GraphExplainer:
        if system not in self._open:
            self._open[system] = GraphExplainer(system)
        return self._open[system]
