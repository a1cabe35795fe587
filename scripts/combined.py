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
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.baselines.bonus import prior, unit
from gnn_encoder.baselines.choice import Setting, plainest_first
from gnn_encoder.baselines.dev import Candidates
from gnn_encoder.baselines.hybrid import Fusion, settings
from gnn_encoder.core.errors import UserError, report_errors
from gnn_encoder.core.judgements import relevant_pairs
from gnn_encoder.core.runs import read_run
from gnn_encoder.core.storage.tables import count_rows
from gnn_encoder.evaluation.significance import compare
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.judging import dev_queries, judgements, read_ranked, read_values, write_rankings
from gnn_encoder.pipeline.params import Params, load_params
from gnn_encoder.pipeline.systems import LEXICAL, title_of
from gnn_encoder.presenting.formats import difference, p_value, points

ALONE = "alone"
Values = dict[str, pl.DataFrame]  # split -> qid, and the value of the measure, by qid
Way = tuple[Mapping[str, Candidates], list[Setting]]  # split -> candidates, and the settings to try


def combined(dense: str, way: str, params: Params) -> Values:
    """The queries' values of a dense system with what is added to it; prints their means and the setting."""
    measure, told = params.evaluate.significance, ""
    if way == ALONE:
        rows = read_values([dense]).filter(measure=measure)
        found = {split: rows.filter(split=split) for split in project.JUDGED}
    else:
        candidates, tried = WAYS[way](dense, params)
        choice, rankings = dev_queries(params).rank(dense, candidates, tried, depth=params.retrieve.depth, facts={})
        told, found = f" and {way}, {choice.setting}", {}
        with tempfile.TemporaryDirectory() as scratch:
            write_rankings(Path(scratch), dense, choice, rankings)
            for split in project.JUDGED:
                run = read_run(Path(scratch) / project.run_file(dense, split).name)
                found[split] = judgements(split, params.evaluate).measure(run, [measure])
    means = ", ".join(f"{split} {points(values['value'].to_numpy().mean())}" for split, values in found.items())
    print(f"{title_of(dense)}{told}: {measure} {means}", flush=True)
    return {split: values.sort("qid").select("qid", "value") for split, values in found.items()}


def fuse(dense: str, params: Params) -> Way:
    """A dense system fused with BM25."""
    folders = project.runs(dense), project.runs(LEXICAL)
    found = {split: Fusion.of(*(read_ranked(runs, split) for runs in folders)) for split in project.JUDGED}
    return found, settings(params.baselines)


def favour(dense: str, params: Params) -> Way:
    """A dense system with a prior for labelled passages."""
    labelled = np.zeros(count_rows(project.PASSAGES), dtype=bool)
    labelled[relevant_pairs(*project.tables("train"))["passage"].to_numpy()] = True
    runs = {split: read_ranked(project.runs(dense), split) for split in project.JUDGED}
    weights, scale = plainest_first(params.baselines.label_prior), unit(*runs["dev"])
    return {split: prior(of, labelled, scale) for split, of in runs.items()}, [{"weight": w} for w in weights]


WAYS: dict[str, Callable[[str, Params], Way]] = {"bm25": fuse, "prior": favour}


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
