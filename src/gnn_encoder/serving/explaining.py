"""What the GNN did to one passage: which queries it listened to, how far its gate opened, how far it moved.

It needs torch, and so it is computed in a process of its own: explainer.py.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

from gnn_encoder.core.errors import UserError
from gnn_encoder.core.judgements import relevant_pairs
from gnn_encoder.core.storage.arrays import open_matrix
from gnn_encoder.encoding.corpus import embed_passages, same_encoder
from gnn_encoder.growing.joining import GraphJoiner
from gnn_encoder.growing.versions import current
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.graphs import GraphArtifacts, open_informer
from gnn_encoder.pipeline.opening import load_encoder, open_passages
from gnn_encoder.pipeline.params import load_params

SHOWN = 50  # queries of a passage that are told, those with the most attention


@dataclass(frozen=True, kw_only=True)
class Informed:
    """What informed a passage; the last of the attention is the passage's own.

    *Shape:* queries (n,) nodes of the graph, labelled (n,), by_head (n + 1, heads).
    """

    queries: NDArray[np.integer[Any]]
    labelled: NDArray[np.bool_]
    by_head: NDArray[np.float32]
    gate: float
    shift: float

    @property
    def attention(self) -> NDArray[np.float32]:
        """The mean over heads. *Shape:* (n + 1,)."""
        found: NDArray[np.float32] = self.by_head.mean(axis=1)
        return found


class GraphExplainer:
    """A GNN-encoder's graph and network, open in the project's root.

    Passages that `gnn-encoder add` has made since the build are linked and informed as they were when they were added.
    """

    def __init__(self, system: str) -> None:
        params = load_params()
        source, model = GraphArtifacts(name=system), project.gnn(system)
        self._system, self._encoder = system, load_encoder(model / "encoder", params.encoder)
        self._inform = open_informer(source, model, self._encoder, params)
        self._join: GraphJoiner | None = None
        self._nodes, self._table = source.nodes(), source.queries
        pairs = relevant_pairs(project.queries("train"), project.qrels("train"), project.PASSAGES)
        self._labelled = pairs.filter(pl.col("query") < self._nodes.training)
        encoded = same_encoder(model / "encoder", project.embeddings(source.base))
        self._before = open_matrix(encoded) if encoded is not None else None
        self._batch_tokens = params.encoder.batch_tokens

    def explain(self, row: int, pid: str) -> dict[str, Any]:
        """All that is known of the passage in a row of the version that is current.

        Raises:
            UserError: the row holds another passage.
        """
        version = current(self._system)
        (passage,) = _rows_of(version.passages, ["pid", "title", "text"], [row])
        if passage["pid"] != pid:
            raise UserError(f"passage {pid!r} is not in row {row} of {version.passages}: the project has changed")
        built = row if version.rows is None else int(np.load(version.rows, mmap_mode="r")[row])
        return self._told(self._built(built) if built >= 0 else self._added(passage))

    def _built(self, row: int) -> Informed:
        before = self._embedding(row)
        after = self._inform(row, before)
        subgraph, heads, gate = self._inform.attend(np.array([row]), before)
        queries = subgraph.queries[subgraph.edge_query]
        return Informed(
            queries=queries,
            labelled=np.isin(queries, self._labelled.filter(passage=row)["query"].to_numpy()),
            by_head=heads,
            gate=float(gate[0]),
            shift=_distance(after, before),
        )

    def _added(self, passage: dict[str, Any]) -> Informed:
        if self._join is None:
            self._join = GraphJoiner(self._system, load_params())
        joined = self._join.join(pl.DataFrame([passage]))
        with torch.no_grad():
            after = self._join.gnn.interactive_passages(**joined.inputs).cpu().numpy()
            heads, gate = self._join.gnn.explain(**joined.inputs)
        return Informed(
            queries=joined.edges["query"].to_numpy(),
            labelled=joined.edges["labelled"].to_numpy(),
            by_head=heads.cpu().numpy(),
            gate=float(gate[0]),
            shift=_distance(after, joined.h_p),
        )

    def _told(self, found: Informed) -> dict[str, Any]:
        asked = len(found.queries)
        order = np.argsort(-found.attention[:asked], kind="stable")[:SHOWN]
        shown = found.queries[order].tolist()
        texts = dict(zip(shown, _rows_of(self._table, ["qid", "text"], shown), strict=True))
        return {
            "queries": [
                {
                    **texts[node],
                    "attention": float(found.attention[place]),
                    "by_head": found.by_head[place].tolist(),
                    "labelled": bool(found.labelled[place]),
                    "kind": self._kind(node),
                }
                for place, node in zip(order.tolist(), shown, strict=True)
            ],
            "n_queries": asked,
            "attention_of_the_others": float(np.delete(found.attention[:asked], order).sum()),
            "attention_to_itself": float(found.attention[asked]),
            "attention_to_itself_by_head": found.by_head[asked].tolist(),
            "gate": found.gate,
            "shift": found.shift,
        }

    def _kind(self, node: int) -> str:
        if node < self._nodes.training:
            return "training"
        return "generated" if self._nodes.sources[node - self._nodes.training] >= 0 else "unlabelled"

    def _embedding(self, row: int) -> NDArray[np.float32]:
        """h_p of a passage of the build. *Shape:* (1, d)."""
        if self._before is not None:
            return np.array(self._before[row : row + 1], dtype=np.float32)
        return embed_passages(self._encoder, open_passages(self._encoder), self._batch_tokens, np.array([row]))


def _distance(after: NDArray[Any], before: NDArray[Any]) -> float:
    return float(np.linalg.norm(after.astype(np.float64) - before))


def _rows_of(table: Path, columns: list[str], rows: list[int]) -> list[dict[str, Any]]:
    """Some rows of a table in the order asked for, without `TableRows`, which FAISS comes with."""
    wanted = pl.DataFrame({"row": rows}, schema={"row": pl.UInt32})
    found = pl.scan_parquet(table).select(columns).with_row_index("row").filter(pl.col("row").is_in(rows)).collect()
    return wanted.join(found, on="row", how="left", maintain_order="left").select(columns).to_dicts()


@cache
def _opened(system: str) -> GraphExplainer:
    return GraphExplainer(system)


def explain(system: str, row: int | None = None, pid: str = "") -> dict[str, Any]:
    """Explain a passage of a system, whose graph stays open; without a row, only open it.

    Raises:
        UserError: an artifact is missing, or the row holds another passage.
    """
    explainer = _opened(system)
    return {} if row is None else explainer.explain(row, pid)
