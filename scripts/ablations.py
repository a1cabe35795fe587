"""The papers' ablations, each an experiment of DVC a seed: queue them; then means over seeds, and paired differences.

python scripts/ablations.py queue --seeds 13 14 15             # all of configs/ablations.txt; then: dvc queue start
python scripts/ablations.py queue full no_gate --seeds 13      # some of them
python scripts/ablations.py compare --seeds 13 14 15           # those that have run, with `full`
"""

import argparse
import subprocess
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path

import polars as pl

from gnn_encoder.base.errors import UserError, report_errors
from gnn_encoder.evaluate.measures import Comparison, compare, corrected, parse, parts_by
from gnn_encoder.evaluate.tables import NOTHING, Table, comparison, markdown, points
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import load_params
from gnn_encoder.pipeline.project import CONTROL, MAIN, REFERENCE, title_of

FULL = "full"  # the ablation that changes nothing
CONTROLS = (CONTROL, REFERENCE)  # systems of the same experiments, which are compared with it too


def read_ablations(path: Path, names: Iterable[str] = ()) -> dict[str, list[str]]:
    """Name -> the parameters that it sets, of each line of a file, or of those that are named."""
    lines = (line.partition("#")[0].split() for line in path.read_text(encoding="utf-8").splitlines())
    found = {name: settings for name, *settings in filter(None, lines)}
    for name in names:
        if name not in found:
            raise UserError(f"{path}: has no ablation {name!r}; name some of {', '.join(found)}")
    return {name: found[name] for name in names or found}


def read_experiments(names: Iterable[str], seeds: Iterable[int]) -> tuple[pl.DataFrame, list[str]]:
    """Values of queries in finished experiments, from DVC's cache, with ablation and seed; and which have none."""
    from dvc.api import DVCFileSystem
    from dvc.exceptions import DvcException
    from dvc.scm import SCMError

    found, missing = [], []
    for name, seed in product(names, seeds):
        # Of `full` the controls are kept, as ablations of their own names.
        places = [project.measured(one) / project.VALUES for one in (MAIN, *(CONTROLS if name == FULL else ()))]
        try:
            files = DVCFileSystem(rev=f"{name}-{seed}")
            values = pl.concat(pl.read_parquet(files.read_bytes(place.as_posix())) for place in places)
        except (DvcException, SCMError, OSError):
            missing.append(f"{name}-{seed}")
            continue
        found.append(values.with_columns(ablation=pl.col("system").replace(MAIN, name), seed=pl.lit(seed)))
    if not any(FULL in values["ablation"] for values in found):
        cure = "`python scripts/ablations.py queue` first, then `dvc queue start`; `dvc queue status` says what failed"
        raise UserError(f"DVC has no values of an experiment of {FULL}, which all are compared with; {cure}")
    return pl.concat(found), missing


def ablation_tables(values: pl.DataFrame, measure: str) -> Iterator[Table]:
    """A table a split: each ablation's mean, and its difference from `full`; a query's value is its mean over seeds."""
    (measure,) = parse([measure])
    for split, of in parts_by("split", values.filter(measure=measure)).items():
        parts, rows = parts_by("ablation", of), []
        compared = corrected({name: _compared(part, parts[FULL], name) for name, part in parts.items() if name != FULL})
        for name, part in parts.items():
            seeds = part.group_by("seed", maintain_order=True).agg(pl.col("value").mean())["value"]
            spread = f"{points(min(seeds))} to {points(max(seeds))}" if len(seeds) > 1 else NOTHING
            cells = [points(sum(seeds) / len(seeds)), f"{len(seeds)}: {spread}", comparison(compared.get(name))]
            rows.append([title_of(name), *cells])
        columns = ["Ablation", measure, "seeds: lowest to highest", f"against {FULL}"]
        note = "Differences are of each query's mean over the seeds that both have; p after Holm's correction for "
        title = f"{split.capitalize()} queries, points of 100"
        yield Table(title=title, columns=columns, rows=rows, note=f"{note}{split}.")


def _compared(ablation: pl.DataFrame, full: pl.DataFrame, name: str) -> Comparison:
    """The ablation minus `full`, over the queries and seeds that both have."""
    both = ablation.join(full, on=["seed", "qid"], suffix="_full", maintain_order="left")
    if both.is_empty():
        raise UserError(f"ablation {name}: no seed that {FULL} has too; queue both with the same seeds")
    means = both.group_by("qid", maintain_order=True).agg(pl.col("value", "value_full").mean())
    return compare(means["value"].to_numpy(), means["value_full"].to_numpy(), FULL)


def queue(ablations: dict[str, list[str]], seeds: list[int]) -> None:
    """Queue an experiment for each ablation and seed, those of one seed together: DVC makes once what they share."""
    for seed, (name, settings) in product(seeds, ablations.items()):
        changes = [f"--set-param={setting}" for setting in (*settings, f"seed={seed}")]
        command = ["dvc", "exp", "run", "--queue", f"--name={name}-{seed}", *changes]
        if subprocess.run(command, check=False).returncode:
            raise UserError(f"`{' '.join(command)}` failed; what it says stands above")


def tell(names: Iterable[str], seeds: list[int], measure: str) -> None:
    """Print the tables of the experiments that have run, and which have not."""
    values, missing = read_experiments(dict.fromkeys([FULL, *names]), seeds)
    for table in ablation_tables(values, measure):
        print(f"{markdown(table)}\n")
    if missing:
        print(f"left out, since DVC has no values of them: {', '.join(missing)}")


if __name__ == "__main__":
    with report_errors():
        parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("command", choices=["queue", "compare"])
        parser.add_argument("names", nargs="*", metavar="NAME", help="lines of the file; none: all")
        parser.add_argument("--seeds", nargs="+", type=int, default=[13], metavar="SEED")
        parser.add_argument("--file", type=Path, default=Path("configs/ablations.txt"))
        parser.add_argument("--measure", help="of compare; default: evaluate.significance")
        given = parser.parse_args()
        ablations = read_ablations(given.file, given.names)
        if given.command == "queue":
            queue(ablations, given.seeds)
        else:
            tell(ablations, given.seeds, given.measure or load_params().evaluate.significance)
