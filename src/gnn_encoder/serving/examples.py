"""Some queries to begin with, from the data's dev split, so that they were not trained on."""

import numpy as np

from gnn_encoder.core.records import QUERIES, open_table
from gnn_encoder.pipeline import project

SHOWN = 6
FITTING = range(20, 61)  # characters of a query that is easy to read


def example_queries() -> list[str]:
    """Up to six dev queries of readable length, evenly spread over the first rows; none where there is no table."""
    path = project.queries("dev")
    if not path.is_file():
        return []
    first = next(open_table(path, QUERIES).iter_batches(batch_size=2_000, columns=["text"]), None)
    texts = [text for text in (first.column("text").to_pylist() if first is not None else []) if len(text) in FITTING]
    if not texts:
        return []
    places = np.unique(np.linspace(0, len(texts) - 1, SHOWN).round().astype(int))
    return [texts[place] for place in places]
