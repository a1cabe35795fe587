"""s'(q, p) = s(q, p) + w * sum over the n logged queries nearest to q that p is labelled with: cos(q, q').

The idea is LADER's (Jin, Shin and Lu, SIGIR 2023), which averages both scores; here the weight is chosen on dev and may
be negative. Online it costs a second look-up, in the logged queries.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnn_encoder.baselines.bonus import Bonus, unit
from gnn_encoder.baselines.choice import Setting, plainest_first
from gnn_encoder.baselines.embedded import embedded, labelled_queries
from gnn_encoder.baselines.neighbours import Score, with_neighbours
from gnn_encoder.baselines.query_log import QueryLog
from gnn_encoder.baselines.rankings import read_ranked
from gnn_encoder.baselines.reordering import write_reordered
from gnn_encoder.core.rows import Matrix, Rows, Scores
from gnn_encoder.core.storage.arrays import gather, open_matrix
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params

LOG = "log"  # folder of the query log in the artifact


def write_logged_neighbours(system: str, base: str, params: Params, folder: Path) -> None:
    """Write the query log, and the runs of `base` with the number of neighbours and the weight that are best on dev."""
    encoder = DualEncoder.load(project.encoder(base), precision=params.encoder.precision).for_inference()
    log, section = QueryLog.of(*labelled_queries(encoder, params)), params.baselines
    log.save(folder / LOG)
    matrix, dev = open_matrix(project.embeddings(base)), read_ranked(project.runs(base), "dev")
    scale = unit(*dev)

    def open_split(split: str) -> Bonus:
        queries, run = (
            embedded(encoder, split, params),
            dev if split == "dev" else read_ranked(project.runs(base), split),
        )
        given = log.look_up(queries, max(section.neighbours))
        score = scorer(matrix, queries)
        return with_neighbours(run, given, sorted(set(section.neighbours)), score, corpus=len(matrix), unit=scale)

    def facts(dev: Bonus, chosen: Setting, depth: int) -> Setting:
        return {**dev.facts(chosen, depth), "logged_queries": len(log.vectors)}

    settings: list[Setting] = [
        {"weight": weight, "neighbours": count}
        for weight in plainest_first(section.neighbour_weights)
        for count in sorted(set(section.neighbours))
    ]
    # With all queries as neighbours it is nearly `label_prior`, a system of its own: more of them need no trial.
    limits = {"neighbours": (1, max(section.neighbours))}
    write_reordered(system, open_split, settings, params, folder, facts, limits=limits)


def scorer(matrix: NDArray[Any], queries: Matrix) -> Score:
    """Inner products of queries with single rows of a passage matrix. *Shape:* (m, d), (n, d)."""

    def score(of: Rows, passages: Rows) -> Scores:
        vectors = gather(matrix, passages).astype(np.float32)
        scores: Scores = np.einsum("ed,ed->e", queries[of], vectors)
        return scores

    return score
