"""Ablations, each an experiment of DVC a seed: what queues them, and means over seeds with paired differences."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from pathlib import Path

import polars as pl

from gnn_encoder.base.errors import UserError
from gnn_encoder.evaluate.measures import by_split, parse
from gnn_encoder.evaluate.significance import Comparison, bootstrap_interval, compare, corrected
from gnn_encoder.evaluate.tables import NOTHING, Table, comparison, points
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.project import MAIN, REFERENCE, title_of

FULL = "full"  # the ablation that changes nothing
CONTROLS = ("no_gnn", REFERENCE)  # systems of the same experiments, which are compared with it too


def read_ablations(path: Path, names: Iterable[str] = ()) -> dict[str, list[str]]:
    """Name -> the parameters that it sets, of each line of a file, or of those that are named."""
    lines = (line.partition("#")[0].split() for line in path.read_text(encoding="utf-8").splitlines())
    found = {name: settings for name, *settings in filter(None, lines)}
    for name in names:
        if name not in found:
            raise UserError(f"{path}: has no ablation {name!r}; name some of {', '.join(found)}")
    return {name: found[name] for name in names or found}


def queue_command(name: str, settings: list[str], seed: int) -> list[str]:
    """The command that queues an ablation with a seed."""
    changes = [part for setting in (*settings, f"seed={seed}") for part in ("--set-param", setting)]
    return ["dvc", "exp", "run", "--queue", "--name", f"{name}-{seed}", *changes]


def read_experiments(names: Iterable[str], seeds: Iterable[int]) -> tuple[pl.DataFrame, list[str]]:
    """Values of queries in finished experiments, from DVC's cache, with ablation and seed; and which have none."""
    from dvc.api import DVCFileSystem
    from dvc.exceptions import DvcException
    from dvc.scm import SCMError

    path, found, missing = (project.evaluation(MAIN) / project.VALUES).as_posix(), [], []
    for name, seed in product(names, list(seeds)):
        experiment = f"{name}-{seed}"
        try:
            with DVCFileSystem(rev=experiment).open(path, "rb") as file:
                values = pl.read_parquet(file.read())
        except (DvcException, SCMError, OSError):
            missing.append(experiment)
            continue
        # Of `full` the controls are kept, as ablations of their own names.
        kept = [MAIN, *(CONTROLS if name == FULL else [])]
        ablation = pl.when(pl.col("system") == MAIN).then(pl.lit(name)).otherwise(pl.col("system"))
        found.append(values.filter(pl.col("system").is_in(kept)).with_columns(ablation=ablation, seed=pl.lit(seed)))
    if not any(FULL in values["ablation"] for values in found):
        cure = "queue it with scripts/queue_ablations.py, then `dvc queue start`; `dvc queue status` says what failed"
        raise UserError(f"DVC has no values of an experiment of {FULL}, which all are compared with; {cure}")
    return pl.concat(found), missing


def ablation_tables(values: pl.DataFrame, measure: str) -> list[Table]:
    """A table a split: each ablation's mean, and its difference from `full` with a bootstrap's interval over queries.

    A query's value is its mean over the seeds; p is the paired t-test's after Holm's correction for the whole table.
    """
    (measure,) = parse([measure])
    return [_table(rows, split, measure) for split, rows in by_split(values.filter(measure=measure)).items()]


def _table(values: pl.DataFrame, split: str, measure: str) -> Table:
    parts = {str(name): rows for (name,), rows in values.group_by("ablation", maintain_order=True)}
    compared = corrected({name: _compared(rows, parts[FULL], name) for name, rows in parts.items() if name != FULL})
    rows = []
    for name, part in parts.items():
        seeds = part.group_by("seed", maintain_order=True).agg(pl.col("value").mean())["value"]
        spread = f"{points(min(seeds))} to {points(max(seeds))}" if len(seeds) > 1 else NOTHING
        cells = [points(sum(seeds) / len(seeds)), f"{len(seeds)}: {spread}", comparison(compared.get(name))]
        rows.append([title_of(name), *cells])
    columns = ["Ablation", measure, "seeds: lowest to highest", f"against {FULL}"]
    note = f"Differences are of each query's mean over the seeds that both have; p after Holm's correction for {split}."
    return Table(title=f"{split.capitalize()} queries, points of 100", columns=columns, rows=rows, note=note)


def _compared(ablation: pl.DataFrame, full: pl.DataFrame, name: str) -> Comparison:
    """The ablation minus `full`, over the queries and seeds that both have."""
    both = ablation.join(full, on=["seed", "qid"], suffix="_full", maintain_order="left")
    if both.is_empty():
        raise UserError(f"ablation {name}: no seed that {FULL} has too; queue both with the same seeds")
    means = both.group_by("qid", maintain_order=True).agg(pl.col("value", "value_full").mean())
    values, others = means["value"].to_numpy(), means["value_full"].to_numpy()
    low, high = bootstrap_interval(values - others, seed=0)
    return replace(compare(values, others, FULL), low=low, high=high)
