"""Committed results: record a clone's, compare a clone with them, and fill the documents' tables.

python scripts/results.py record NAME ...    # in a clone that has run; --help says what a record holds
python scripts/results.py check NAME         # in a clone that ran NAME's command; `default`: of the committed metrics/
python scripts/results.py tables             # of README.md and docs/results.md: no number in them is typed by hand

A record holds parameters, metrics, and of every judged query the measure that is tested: `values.parquet`.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import polars as pl
import typer
import yaml

from gnn_encoder.base.errors import UserError, report_errors
from gnn_encoder.base.files import read_json, write_json
from gnn_encoder.evaluate.measures import Means, compare, parse
from gnn_encoder.evaluate.tables import Table, best_rival, difference, markdown, of_other_data, p_value, points
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import load_params
from gnn_encoder.pipeline.project import (
    CONTROL,
    HYBRID,
    JUDGED,
    MAIN,
    METRICS,
    PLUS,
    REFERENCE,
    UNTOUCHED,
    registry,
    title_of,
)

RESULTS, DEFAULT = Path("results"), "default"
SEEDS = DEFAULT, "default_14", "default_15"
PAIRS = [  # of the table of differences over these
    ("gnn_encoder", "dual_encoder"),
    ("gnn_encoder", "no_gnn"),
    ("gnn_encoder", "closed_form"),
    ("gnn_encoder", "query_bank"),
    ("gnn_encoder_plus", "no_gnn_plus"),
    ("gnn_encoder_plus", "gnn_encoder"),
    ("gnn_encoder_plus", "untouched_plus"),
    ("closed_form", "no_gnn"),
    ("query_bank", "no_gnn"),
    ("no_gnn_plus", "no_gnn"),
    ("hybrid", "gnn_encoder_plus"),
    ("dual_encoder", "untouched"),
]
BARE = "untouched_plus"  # labels and query bank upon the base model
TOLERANCE = 0.01  # what another processor, which rounds otherwise, may change of a measure
SHOWN = {"InsuranceQA": SEEDS, "Commands: captions and pages": ("tldr",)}  # of README's table
app = typer.Typer(help=str(__doc__).replace("\n\n", "\n\n\b\n"), add_completion=False, rich_markup_mode=None)
Told = Annotated[str, typer.Option()]


@dataclass(frozen=True, kw_only=True)
class Record:
    """How the metrics of a folder came about."""

    title: str
    data: str
    command: str
    commit: str
    processor: str
    minutes: float


@app.command()
def record(
    name: str, title: Told, data: Told, command: Told, processor: Told, minutes: Annotated[float, typer.Option()]
) -> None:
    """Copy what a run in this clone has measured."""
    target, params = RESULTS / name, load_params()
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    if name != DEFAULT:  # whose parameters and metrics are the project's
        shutil.copytree(METRICS / MAIN, target / "metrics" / MAIN)
        text = Path("params.yaml").read_text(encoding="utf-8")
        if path := params.data.path:
            text = re.sub(rf"^(# Made by: .*|  path: .*){re.escape(path)}", r"\1FOLDER", text, flags=re.M)
        (target / "params.yaml").write_text(text, encoding="utf-8")
    (tested,) = parse([params.evaluate.significance])
    systems = registry().branches[MAIN].systems
    values = pl.concat(pl.read_parquet(project.measured(one) / project.VALUES) for one in systems)
    values = values.filter(measure=tested).pivot("system", index=["split", "qid"], values="value", maintain_order=True)
    values.write_parquet(target / "values.parquet", compression="zstd")
    commit = subprocess.check_output(["git", "rev-parse", "--short=8", "HEAD"], text=True).strip()
    found = Record(title=title, data=data, command=command, commit=commit, processor=processor, minutes=minutes)
    write_json(target / "record.json", found)


@app.command()
def check(name: str) -> None:
    """Print this clone's scores beside the recorded ones; fails if one differs by more than the tolerance."""
    if not (RESULTS / name).is_dir():
        names = ", ".join(sorted(path.name for path in RESULTS.iterdir()))
        raise UserError(f"{RESULTS / name}: no such result; name one of {names}")
    if name != DEFAULT:
        both = [
            yaml.safe_load(Path(of, "params.yaml").read_text(encoding="utf-8"))["data"] for of in (".", RESULTS / name)
        ]
        if other := [key for key, value in both[0].items() if key != "path" and value != both[1].get(key)]:
            raise UserError(
                f"params.yaml, data: other {', '.join(other)} than of {name}; run its command in this clone first"
            )
    # Of a clone in which nothing ran, metrics/ are the committed ones.
    if told := of_other_data(load_params(), REFERENCE):
        raise UserError(f"{METRICS / MAIN}: {told}; run it first")
    measure, worst, rows = load_params().evaluate.significance, 0.0, list[list[str]]()
    for split in JUDGED:
        expected, found = committed(name, split), read_json(METRICS / MAIN / f"{split}.json", Means)
        for system, values in expected.items():
            if missing := values.keys() - found.get(system, {}).keys():
                told = f"has no {', '.join(sorted(missing))} of {system}; run {name}'s command first"
                raise UserError(f"{METRICS / MAIN}: {told}")
            worst = max(worst, *(abs(value - found[system][one]) for one, value in values.items()))
            both = values[measure], found[system][measure]
            rows.append([title_of(system), split, *map(points, both), f"{100 * (both[1] - both[0]):+.1f}"])
    print(markdown(Table(columns=["system", "split", f"{measure} recorded", "here", "difference"], rows=rows)))
    verdict = "the same" if worst == 0 else f"at most {100 * worst:.1f} points apart, {100 * TOLERANCE:.0f} is allowed"
    print(f"\n{name}: all measures of both splits: {verdict}")
    raise typer.Exit(int(worst > TOLERANCE))


def committed(name: str, split: str) -> Means:
    """The committed means of a result."""
    if name != DEFAULT:
        return read_json(RESULTS / name / "metrics" / MAIN / f"{split}.json", Means)
    path = (METRICS / MAIN / f"{split}.json").as_posix()
    found: Means = json.loads(subprocess.check_output(["git", "show", f"HEAD:{path}"]))
    return found


def readme_table() -> Table:
    """The default and the logs on their test queries: the main system beside what it is compared with."""
    labels = [
        "base model, untouched",
        "base model with labels and query bank, by formulas: nothing is trained",
        "M_de, the dual-encoder that GNN-encoder starts from",
        "the control: M_de trained further with GNN-encoder's loss, without a graph",
        "the control with labels and query bank: the best without a graph, on dev",
        "**GNN-encoder**",
        "**GNN-encoder with labels and query bank**",
        "GNN-encoder above the control",
        "with labels and query bank, above the best without a graph",
        "hybrid of BM25, dense and training queries: one or two look-ups more",
    ]
    rows = [list(row) for row in zip(labels, *map(scores, SHOWN.values()), strict=True)]
    return Table(columns=["RR@10", *SHOWN], rows=rows)


def sets_table() -> Table:
    """All recorded results, a row each."""
    columns = ["set", "data", "M_de", "control", "best without a graph", "GNN-encoder", "+ labels + query bank"]
    columns += ["above the control", "the latter above the best", "hybrid", "minutes", "made by"]
    rows = []
    for path in sorted(RESULTS.glob("*/record.json")):
        found, (_, _, *told) = read_json(path, Record), scores([path.parent.name])
        made = f"{found.minutes:.0f}", f"`{found.command}`"
        rows.append([f"[{found.title}](../{path.parent})", found.data, *told, *made])
    return Table(columns=columns, rows=rows)


def values_of(names: Iterable[str], split: str) -> list[pl.DataFrame]:
    """The values of a split's queries, a table a record, with a column a system, the queries in one order."""
    return [pl.read_parquet(RESULTS / name / "values.parquet").filter(split=split).sort("qid") for name in names]


def mean_of(names: Iterable[str], split: str) -> pl.DataFrame:
    """Each query's values as means over the seeds of some records."""
    each = values_of(names, split)
    return pl.DataFrame({system: sum(of[system] for of in each) / len(each) for system in each[0].columns[2:]})


def scores(names: Iterable[str]) -> list[str]:
    """Test scores, as the README's table has them: seven systems, two gains, the hybrid."""
    test, dev = (mean_of(names, split) for split in ("test", "dev"))
    best = best_rival({system: dev[system].mean() for system in dev.columns})
    systems = [points(test[one].mean()) for one in (UNTOUCHED, BARE, REFERENCE, CONTROL, best, MAIN, PLUS)]
    return [*systems, above(test, MAIN, CONTROL), above(test, PLUS, best), points(test[HYBRID].mean())]


def above(values: pl.DataFrame, system: str, other: str, *, tested: bool = False) -> str:
    """A cell: the mean difference of two systems with its interval, and its p if that is wanted."""
    found = compare(values[system].to_numpy(), values[other].to_numpy(), other)
    return difference(found) + (f", {p_value(found.p)}" if tested else "")


def seeds_table() -> Table:
    """The default's systems with each seed."""
    test, dev, rows = values_of(SEEDS, "test"), values_of(SEEDS, "dev"), []
    for system in test[0].columns[2:]:
        each, on_dev = ([one[system].mean() for one in of] for of in (test, dev))
        rows.append([title_of(system), *map(points, [*each, sum(each) / len(each), sum(on_dev) / len(on_dev)])])
    seeds = [
        yaml.safe_load(Path(of, "params.yaml").read_text())["seed"] for of in (".", *(RESULTS / n for n in SEEDS[1:]))
    ]
    columns = ["RR@10 on test", *(f"seed {seed}" for seed in seeds), "mean", "mean on dev"]
    return Table(columns=columns, rows=rows)


def differences_table() -> Table:
    """Differences of the default's systems, each query's value being its mean over the seeds."""
    splits = [mean_of(SEEDS, split) for split in ("test", "dev")]
    rows = [
        [f"{title_of(one)} above {title_of(other)}", *(above(values, one, other, tested=True) for values in splits)]
        for one, other in PAIRS
    ]
    return Table(columns=["RR@10, mean of the seeds", "test", "dev"], rows=rows)


TABLES = {
    (Path("README.md"), "results"): readme_table,
    (Path("docs/results.md"), "sets"): sets_table,
    (Path("docs/results.md"), "seeds"): seeds_table,
    (Path("docs/results.md"), "differences"): differences_table,
}


def filled(path: Path, mark: str) -> str:
    """A document's text with its table as it is made of the committed metrics."""
    table = f"<!-- {mark} -->\n{markdown(TABLES[path, mark]())}\n<!-- /{mark} -->"
    parts = re.split(f"<!-- {mark} -->.*<!-- /{mark} -->", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return table.join(parts)


@app.command("tables")
def fill() -> None:
    """Fill the tables of the documents."""
    for path, mark in TABLES:
        path.write_text(filled(path, mark), encoding="utf-8")


if __name__ == "__main__":
    with report_errors():
        app()
