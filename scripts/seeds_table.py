#!/usr/bin/env python3
"""Prints a table of the same experiment run with several seeds, each in a clone of its own.

    python scripts/seeds_table.py FOLDER... [--split test] [--measure RR@10]

A column a folder, a row a system, in points of 100, and each run's difference to M_de with its p (paired t-test over
queries, without correction). It reads `metrics/gnn_encoder/` and the seed from `params.yaml` of each folder.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from gnn_encoder.core.errors import UserError, report_errors
from gnn_encoder.pipeline.params import load_params
from gnn_encoder.pipeline.project import METRICS
from gnn_encoder.pipeline.systems import MAIN, title_of
from gnn_encoder.presenting.formats import p_value, points
from gnn_encoder.presenting.tables import Table, markdown


def read(folder: Path, name: str, split: str) -> dict[str, Any]:
    """One split of a file of metrics, by system. Files of means have the split in their name."""
    path = folder / METRICS / MAIN / f"{split if name == 'means' else name}.json"
    if not path.is_file():
        raise UserError(f"{path}: no such file; name clones in which evaluate@{MAIN} has run")
    found = json.loads(path.read_text(encoding="utf-8"))
    return dict(found if name == "means" else found[split])


def main() -> None:
    """Read the runs, and print the table."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folders", nargs="+", type=Path)
    arguments.add_argument("--split", default="test", choices=["dev", "test"])
    arguments.add_argument("--measure", default="RR@10")
    given = arguments.parse_args()
    means = [read(folder, "means", given.split) for folder in given.folders]
    tested = [read(folder, "significance", given.split) for folder in given.folders]
    seeds = [f"seed {load_params(folder / 'params.yaml').seed}" for folder in given.folders]
    known = list(next(iter(means[0].values())))
    if given.measure not in known:
        raise UserError(f"--measure is {given.measure!r}: must be one of {', '.join(known)}")
    rows = []
    for system in means[0]:
        values = [points(one[system][given.measure]) for one in means]
        against = [one[system] for one in tested if system in one]
        told = ", ".join(f"{100 * one['difference']:+.1f} (p = {p_value(one['p'])})" for one in against)
        rows.append([title_of(system), *values, told])
    print(markdown(Table(title="", columns=["System", *seeds, "against M_de"], rows=rows)))


if __name__ == "__main__":
    with report_errors():
        main()
