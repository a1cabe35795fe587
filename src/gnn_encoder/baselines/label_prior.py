"""s'(q, p) = s(q, p) + c for passages that are labelled for a training query, with M_de's score s; c may be negative.

It tells what is gained by nothing but knowing which passages have been answers before. It is an inner product with one
vector per passage: h_p with one more column, c or 0, and the query's vector with one more column, 1.
"""

from pathlib import Path

import numpy as np

from gnn_encoder.baselines.bonus import Bonus, prior, unit
from gnn_encoder.baselines.choice import Setting, plainest_first
from gnn_encoder.baselines.rankings import read_ranked
from gnn_encoder.baselines.reordering import write_reordered
from gnn_encoder.core.judgements import relevant_pairs
from gnn_encoder.core.storage.tables import count_rows
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params


def write_label_prior(system: str, base: str, params: Params, folder: Path) -> None:
    """Write the runs of `base` with the constant that is best on dev."""
    pairs = relevant_pairs(project.queries("train"), project.qrels("train"), project.PASSAGES)
    labelled = np.zeros(count_rows(project.PASSAGES), dtype=bool)
    labelled[pairs["passage"].to_numpy()] = True
    dev = read_ranked(project.runs(base), "dev")
    scale = unit(*dev)

    def open_split(split: str) -> Bonus:
        return prior(dev if split == "dev" else read_ranked(project.runs(base), split), labelled, scale)

    def facts(dev: Bonus, chosen: Setting, depth: int) -> Setting:
        return {**dev.facts(chosen, depth), "labelled_passages": int(labelled.sum())}

    settings: list[Setting] = [{"weight": weight} for weight in plainest_first(params.baselines.label_prior)]
    write_reordered(system, open_split, settings, params, folder, facts)
