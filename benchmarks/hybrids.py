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

from gnn_encoder.baselines.choice import read_choice
from gnn_encoder.baselines.hybrid import write_hybrid
from gnn_encoder.core import project
from gnn_encoder.core.params import Params, load_params
from gnn_encoder.core.systems import HYBRID
from gnn_encoder.evaluation.judge import measure_split
from gnn_encoder.evaluation.runs import read_run
from gnn_encoder.evaluation.significance import compare
from gnn_encoder.presenting.formats import difference, p_value
from gnn_encoder.presenting.names import name_of

SYSTEMS = ["dual_encoder", "query_mean", "gnn_encoder"]
Values = dict[str, NDArray[np.float64]]  # split -> the measure of each of its queries, by their ids' order


def fused(dense: str, params: Params) -> Values:
    """The queries' values of a dense system fused with BM25, as the system `hybrid` would be of that one alone."""
    measure = params.evaluate.significance
    with tempfile.TemporaryDirectory() as scratch:
        folder, found = Path(scratch), {}
        write_hybrid(HYBRID, [dense], params, folder)
        for split in project.JUDGED:
            run = read_run(folder / project.run_file(HYBRID, split).name)
            found[split] = measure_split(run, split, [measure], params.evaluate).sort("qid")["value"].to_numpy()
        chosen = read_choice(folder).chosen.setting
    told = ", ".join(f"{split} {100 * values.mean():.1f}" for split, values in found.items())
    print(f"{name_of(dense)} and BM25, {chosen}: {measure} {told}", flush=True)
    return found


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
