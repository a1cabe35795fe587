"""What the GNN did to one passage: which queries it listened to, how far its gate opened, how far it moved.

It needs torch, and so the server has it computed by a process of its own (explainer.py), which this module is too.
"""

import json
import os
import sys
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

from gnn_encoder.core.errors import UserError
from gnn_encoder.core.judgements import relevant_pairs
from gnn_encoder.core.storage.arrays import open_matrix
from gnn_encoder.core.storage.tables import read_column
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
    """What informed a passage.

    *Shape:* queries (n,) nodes of the graph, labelled (n,), attention (n + 1,): Eq. 4, the mean over heads, at the end
    that of the passage itself. The gate (Eq. 9) is the mean over its columns, the shift ||h' - h||.
    """

    queries: NDArray[Any]
    labelled: NDArray[np.bool_]
    attention: NDArray[Any]
    gate: float
    shift: float


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

    def explain(self, pid: str) -> dict[str, Any]:
        """All that is known of a passage of the version that is current.

        Raises:
            UserError: there is no such passage.
        """
        version = current(self._system)
        table = pl.scan_parquet(version.passages).with_row_index("row")
        passage = table.filter(pl.col("pid") == pid).collect(engine="streaming")
        if not len(passage):
            raise UserError(f"no passage has the id {pid!r}")
        row = passage["row"][0]
        built = row if version.rows is None else int(np.load(version.rows, mmap_mode="r")[row])
        return self._told(self._built(built) if built >= 0 else self._added(passage))

    def _built(self, row: int) -> Informed:
        before, rows = self._embedding(row), np.array([row])
        found = pl.DataFrame(self._inform.explain(rows, before))  # the last one is the passage itself
        queries = found["query"].to_numpy()[:-1]
        return Informed(
            queries=queries,
            labelled=np.isin(queries, self._labelled.filter(passage=row)["query"].to_numpy()),
            attention=found["attention"].to_numpy(),
            gate=float(found["gate"][0]),
            shift=_distance(self._inform(row, before), before),
        )

    def _added(self, passage: pl.DataFrame) -> Informed:
        if self._join is None:
            self._join = GraphJoiner(self._system, load_params())
        joined, gnn = self._join.join(passage), self._join.gnn
        with torch.no_grad():
            after, (heads, gate) = gnn.interactive_passages(**joined.inputs), gnn.explain(**joined.inputs)
        return Informed(
            queries=joined.edges["query"].to_numpy(),
            labelled=joined.edges["labelled"].to_numpy(),
            attention=heads.mean(dim=1).cpu().numpy(),
            gate=float(gate[0]),
            shift=_distance(after.cpu().numpy(), joined.inputs["h_p"].cpu().numpy()),
        )

    def _told(self, found: Informed) -> dict[str, Any]:
        n_queries = len(found.queries)
        order = np.argsort(-found.attention[:n_queries], kind="stable")[:SHOWN]
        texts = read_column(self._table, "text").take(found.queries[order]).to_pylist()
        queries = [
            {
                "text": text,
                "attention": float(found.attention[place]),
                "labelled": bool(found.labelled[place]),
                "kind": self._kind(int(found.queries[place])),
            }
            for place, text in zip(order, texts, strict=True)
        ]
        return {
            "queries": queries,
            "n_queries": n_queries,
            "attention_to_itself": float(found.attention[n_queries]),
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


def answer_questions() -> None:
    """Answer lines of JSON, a system and a passage's id each, until there are no more; a graph stays open."""
    opened, answers = cache(GraphExplainer), os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is no answer
    for line in sys.stdin:
        system, pid = json.loads(line)
        try:
            found = opened(system).explain(pid)
        except UserError as error:
            found = {"error": str(error)}
        answers.write(json.dumps(found) + "\n")
        answers.flush()


if __name__ == "__main__":
    answer_questions()
