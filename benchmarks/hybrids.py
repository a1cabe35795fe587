"""What is left of a dense system's gain once BM25 is fused with it, each fused by what is best for it on dev.

    python benchmarks/hybrids.py [SYSTEM...]       # by default M_de, the mean of labelled queries and GNN-encoder

It reads the runs of BM25 and of the dense systems, which must have been made, and changes nothing. The settings tried
are those of the system `hybrid` (section baselines). Differences are those of the last system from each other one.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gnn_encoder.baselines.choice import Setting
from gnn_encoder.baselines.dev import DevQueries
from gnn_encoder.baselines.fusion import Fusion, settings
from gnn_encoder.baselines.rankings import best, read_ranked
from gnn_encoder.core import project
from gnn_encoder.core.params import Params, load_params
from gnn_encoder.core.storage.tables import read_column
from gnn_encoder.core.systems import LEXICAL
from gnn_encoder.evaluation.judge import measure_split
from gnn_encoder.evaluation.runs import read_run, write_run
from gnn_encoder.evaluation.significance import compare
from gnn_encoder.presenting.formats import difference, p_value
from gnn_encoder.presenting.names import name_of

SYSTEMS = ["dual_encoder", "query_mean", "gnn_encoder"]
Values = dict[str, NDArray[np.float64]]  # split -> the measure of each of its queries, by their ids' order


def opened(dense: str, split: str) -> Fusion:
    """What BM25 and a dense system found for the queries of a split."""
    return Fusion.of(read_ranked(dense, split), read_ranked(LEXICAL, split))


def fused(dense: str, params: Params) -> Values:
    """The queries' values of a dense system fused with BM25, by the setting that is best on dev."""
    sample, section = DevQueries.sample(params), params.baselines
    tried, dev = settings(section.bm25_weights, section.reciprocal_ranks), opened(dense, "dev")
    passages = dev.passages[sample.rows]
    tops = (best(passages, dev.scores(setting)[sample.rows], sample.depth)[0] for setting in tried)
    chosen = sample.choose(tried, tops).chosen.setting
    found = {
        split: values(dense, split, dev if split == "dev" else opened(dense, split), chosen, params)
        for split in project.JUDGED
    }
    told = ", ".join(f"{split} {100 * found[split].mean():.1f}" for split in found)
    print(f"{name_of(dense)} and BM25, {chosen}: {sample.measure} {told}", flush=True)
    return found


def values(dense: str, split: str, candidates: Fusion, setting: Setting, params: Params) -> NDArray[np.float64]:
    """The measure of `evaluate.significance` of each query of a split."""
    ranking = best(candidates.passages, candidates.scores(setting), params.retrieve.depth)
    qids = read_column(project.queries(split), "qid").to_pylist()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / project.run_file(dense, split).name
        write_run(path, qids, read_column(project.PASSAGES, "pid"), *ranking, "fused")
        judged = measure_split(read_run(path), split, [params.evaluate.significance], params.evaluate)
    return judged.sort("qid")["value"].to_numpy()


def main() -> None:
    """Fuse each system, and compare the last with the others."""
    params, systems = load_params(), sys.argv[1:] or SYSTEMS
    found = {system: fused(system, params) for system in systems}
    last = systems[-1]
    for other in systems[:-1]:
        for split in project.JUDGED:
            one = compare(found[last][split], found[other][split])
            print(
                f"{split}: {name_of(last)} - {name_of(other)}, both with BM25: {difference(one)}, p = {p_value(one.p)}"
            )


if __name__ == "__main__":
    main()
