"""What is left of a system's gain once BM25, or what labels say of passages, is added to every system alike.

    python scripts/combined.py alone dual_cross_dpr dual_cross --clones . ../seed14     # nothing added: several seeds
    python scripts/combined.py bm25 dual_encoder query_mean gnn_encoder     # each fused with BM25
    python scripts/combined.py prior dual_encoder pair gnn_encoder          # each with a prior for labels
    python scripts/combined.py prior dual_encoder gnn_encoder --clones . ../seed14 ../seed15

It reads the systems' runs, which must have been made, and changes nothing. What is added to a system is what the
systems `hybrid` and `label_prior` would be of that one alone: its setting is the best of section baselines on dev.
Differences are those of the last system from each other one, both with what was added. With several clones, each of
which ran the experiment with a seed of its own, a query's value is its mean over them.
"""

import argparse
import contextlib
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.baselines.choice import read_choice
from gnn_encoder.baselines.hybrid import write_hybrid
from gnn_encoder.baselines.label_prior import write_label_prior
from gnn_encoder.core.errors import UserError, report_errors
from gnn_encoder.core.runs import read_run
from gnn_encoder.evaluation.judge import measure_split
from gnn_encoder.evaluation.measures import parse
from gnn_encoder.evaluation.significance import compare
from gnn_encoder.evaluation.values import read_values
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params, load_params
from gnn_encoder.pipeline.systems import HYBRID, title_of
from gnn_encoder.presenting.formats import difference, p_value, points

PRIOR = "label_prior"
Values = dict[str, pl.DataFrame]  # split -> qid, and the value of the measure, by qid
Add = Callable[[str, Params, Path], None]  # the runs of a system with what is added, into a folder


def fuse(dense: str, params: Params, folder: Path) -> None:
    """Write the runs of a dense system fused with BM25."""
    write_hybrid(HYBRID, [dense], params, folder)


def favour(dense: str, params: Params, folder: Path) -> None:
    """Write the runs of a dense system with a prior for labelled passages."""
    write_label_prior(PRIOR, dense, params, folder)


ALONE = "alone"
WAYS: dict[str, tuple[str, Add]] = {"bm25": (HYBRID, fuse), "prior": (PRIOR, favour)}


def alone(dense: str, params: Params) -> Values:
    """The queries' values of a system as stage `measure` wrote them: nothing is added."""
    (measure,) = parse([params.evaluate.significance])
    rows = read_values([dense]).filter(measure=measure).sort("qid")
    found = {split: rows.filter(split=split).select("qid", "value") for split in project.JUDGED}
    tell(f"{title_of(dense)} alone", found, params)
    return found


def combined(dense: str, way: str, params: Params) -> Values:
    """The queries' values of a dense system with what is added to it."""
    measure, (written, add) = params.evaluate.significance, WAYS[way]
    with tempfile.TemporaryDirectory() as scratch:
        folder, found = Path(scratch), {}
        add(dense, params, folder)
        for split in project.JUDGED:
            run = read_run(folder / project.run_file(written, split).name)
            found[split] = measure_split(run, split, [measure], params.evaluate).sort("qid").select("qid", "value")
        chosen = read_choice(folder).chosen.setting
    tell(f"{title_of(dense)} and {way}, {chosen}", found, params)
    return found


def tell(what: str, values: Values, params: Params) -> None:
    """Print the means."""
    told = ", ".join(f"{split} {points(found['value'].to_numpy().mean())}" for split, found in values.items())
    print(f"{what}: {params.evaluate.significance} {told}", flush=True)


def averaged(clones: list[Values], split: str) -> NDArray[np.float64]:
    """Each query's mean over the clones, by qid.

    Raises:
        UserError: the clones judge other queries.
    """
    frames = [one[split] for one in clones]
    if any(not frame["qid"].equals(frames[0]["qid"]) for frame in frames):
        raise UserError(f"--clones: their {split} queries differ; give clones of one experiment, on the same data")
    values: NDArray[np.float64] = np.mean([frame["value"].to_numpy() for frame in frames], axis=0)
    return values


def main() -> None:
    """Add to each system, and compare the last with the others."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("way", choices=[ALONE, *WAYS])
    parser.add_argument("systems", nargs="+", metavar="SYSTEM")
    parser.add_argument("--clones", nargs="+", type=Path, default=[Path()], metavar="FOLDER")
    arguments = parser.parse_args()
    for clone in arguments.clones:
        if not clone.is_dir():
            raise UserError(f"--clones: {clone}: no such folder; correct it")
    nothing = arguments.way == ALONE
    found: dict[str, list[Values]] = {system: [] for system in arguments.systems}
    for clone in arguments.clones:
        with contextlib.chdir(clone):
            params = load_params()
            print(f"{clone}, seed {params.seed}", flush=True)
            for system, values in found.items():
                values.append(alone(system, params) if nothing else combined(system, arguments.way, params))
    both = "" if nothing else f", both with {arguments.way}"
    last = arguments.systems[-1]
    for other in arguments.systems[:-1]:
        for split in project.JUDGED:
            one = compare(averaged(found[last], split), averaged(found[other], split))
            print(f"{split}: {title_of(last)} - {title_of(other)}{both}: {difference(one)}, p = {p_value(one.p)}")


if __name__ == "__main__":
    with report_errors():
        main()
