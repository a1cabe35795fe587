"""Searches an index for a split's queries and writes the run."""

import logging
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gnn_encoder.core.runs import write_run
from gnn_encoder.core.storage.tables import read_column
from gnn_encoder.encoding.corpus import embed_queries
from gnn_encoder.encoding.texts import open_queries
from gnn_encoder.index.search import PassageIndex
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params

log = logging.getLogger(__name__)


def search_split(queries: NDArray[np.float32], index: PassageIndex, split: str, depth: int, path: Path) -> None:
    """Search every query of a split and write the run; it holds the whole corpus where that is smaller than `depth`.

    *Shape:* queries (n, d).
    """
    if depth > index.passages:
        log.info("retrieve.depth %d exceeds the corpus: %s's run holds all %d passages", depth, split, index.passages)
    found = index.find(queries, min(depth, index.passages), name="retrieve.depth")
    if index.views > 1:
        vectors, most = found.vectors.mean(), found.vectors.max()
        log.info("%s: %.0f vectors fetched a query, %d at most, %d views a passage", split, vectors, most, index.views)
    qids = read_column(project.queries(split), "qid").to_pylist()
    write_run(path, qids, index.pids(), found.passages, found.scores, index.system)


def write_runs(encoder: DualEncoder, index: Path, folder: Path, params: Params) -> None:
    """Write the runs of the dev and test queries, encoded by `encoder` and searched in the index of a folder."""
    opened = PassageIndex.open(index)
    for split in project.JUDGED:
        queries = embed_queries(encoder, open_queries(project.queries(split), encoder), params.encoder.batch_tokens)
        search_split(
            queries, opened, split, params.retrieve.depth, folder / project.run_file(opened.system, split).name
        )
