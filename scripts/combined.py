"""What is left of a system's gain once BM25, or what labels say of passages, is added to every system alike.

    python scripts/combined.py alone dual_cross_dpr dual_cross --clones . ../seed14     # nothing added: several seeds
    python scripts/combined.py bm25 dual_encoder query_mean gnn_encoder     # each fused with BM25
    python scripts/combined.py prior dual_encoder pair gnn_encoder          # each with a prior for labels

It reads the systems' runs, and changes nothing. What is added is what the systems `hybrid` and `label_prior` would be
of that one alone: its setting is the best on dev. Differences are those of the last system from each other one. With
several clones, each of which ran the experiment with a seed of its own, a query's value is its mean over them.
"""

import argparse
import contextlib
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.base.errors import UserError, report_errors
from gnn_encoder.base.runs import read_run
from gnn_encoder.baselines.choice import read_choice
from gnn_encoder.evaluation.significance import compare
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.judging import judgements, read_values
from gnn_encoder.pipeline.params import Params, load_params
from gnn_encoder.pipeline.project import title_of
from gnn_encoder.pipeline.rankings import dev_queries, favour, fuse, write_best
from gnn_encoder.presenting.formats import difference, p_value, points

ALONE = "alone"
Values = dict[str, pl.DataFrame]  # split -> qid, and the value of the measure, by qid


def combined(dense: str, way: str, params: Params) -> Values:
    """The queries' values of a dense system with what is added to it; prints their means and the setting."""
    measure, told, found = params.evaluate.significance, "", dict[str, pl.DataFrame]()
    if way == ALONE:
        rows = read_values([dense]).filter(measure=measure)
        found = {split: rows.filter(split=split) for split in project.JUDGED}
    else:
        with tempfile.TemporaryDirectory() as scratch:
            write_best(Path(scratch), dense, WAYS[way](project.runs(dense), params), dev_queries(params), params)
            told = f" and {way}, {read_choice(Path(scratch)).setting}"
            for split in project.JUDGED:
                run = read_run(Path(scratch) / project.run_file(dense, split).name)
                found[split] = judgements(split, params.evaluate).measure(run, [measure])
    means = ", ".join(f"{split} {points(values['value'].to_numpy().mean())}" for split, values in found.items())
    print(f"{title_of(dense)}{told}: {measure} {means}", flush=True)
    return {split: values.sort("qid").select("qid", "value") for split, values in found.items()}


WAYS = {"bm25": fuse, "prior": favour}


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
    given = parser.parse_args()
    found: dict[str, list[Values]] = {system: [] for system in given.systems}
    for clone in given.clones:
        if not clone.is_dir():
            raise UserError(f"--clones: {clone}: no such folder; correct it")
        with contextlib.chdir(clone):
            params = load_params()
            print(f"{clone}, seed {params.seed}", flush=True)
            for system, values in found.items():
                values.append(combined(system, given.way, params))
    *others, last = given.systems
    for other in others:
        for split in project.JUDGED:
            one = compare(averaged(found[last], split), averaged(found[other], split))
            print(f"{split}: {title_of(last)} - {title_of(other)}: {difference(one)}, p = {p_value(one.p)}")


if __name__ == "__main__":
    with report_errors():
        main()
