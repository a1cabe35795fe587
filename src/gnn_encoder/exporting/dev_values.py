"""What query encoders are worth on the dev queries, when each searches a system's built index."""

from dataclasses import dataclass

import numpy as np
from tqdm import tqdm

from gnn_encoder.baselines.dev import DevQueries
from gnn_encoder.core.rows import Rows
from gnn_encoder.core.storage.tables import read_column
from gnn_encoder.index.build import INDEX
from gnn_encoder.index.search import PassageIndex
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import load_params
from gnn_encoder.searcher import QueryEncoder

BATCH = 64  # queries


@dataclass(frozen=True, kw_only=True)
class DevValues:
    """The mean of `measure`, in 0..1, over `queries` judged dev queries, of each encoder."""

    measure: str
    queries: int
    values: dict[str, float]


def dev_values(system: str, encoders: dict[str, QueryEncoder]) -> DevValues | None:
    """Measure query encoders in one system's index; None where it has not been built, or no dev query is judged.

    The measure is `evaluate.significance`, and the queries are those that also choose the baselines' settings.
    """
    needed = (project.index(system) / INDEX, project.queries("dev"), project.qrels("dev"), project.PASSAGES)
    if not all(path.is_file() for path in needed):
        return None
    dev = DevQueries.sample(load_params())
    if not len(dev.rows):
        return None
    texts = np.array(read_column(project.queries("dev"), "text").to_pylist(), dtype=object)[dev.rows].tolist()
    index = PassageIndex.open(project.index(system))
    rankings = [_ranking(name, encoder, texts, index, dev.depth) for name, encoder in encoders.items()]
    values = dict(zip(encoders, dev.values(rankings), strict=True))
    return DevValues(measure=dev.measure, queries=len(dev.rows), values=values)


def _ranking(name: str, encoder: QueryEncoder, texts: list[str], index: PassageIndex, depth: int) -> Rows:
    """The first `depth` passages of each query. *Shape:* (n, depth)."""
    parts = tqdm(range(0, len(texts), BATCH), desc=f"dev queries, {name}", unit=" batches", disable=None)
    vectors = np.concatenate([encoder.embed_queries(texts[first : first + BATCH]) for first in parts])
    return index.search(vectors, depth)[0]
