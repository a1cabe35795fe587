"""Committed results: record a clone's, compare a clone with them, and fill the documents' tables.

python scripts/results.py record NAME ...    # in a clone that has run; --help says what a record holds
python scripts/results.py check NAME         # in a clone that ran NAME's command; `default`: of the committed metrics/
python scripts/results.py tables             # of README.md and docs/results.md: no number in them is typed by hand

A record holds parameters, metrics, and of every judged query the measure that is tested, of each system of every branch
that has run: `values.parquet`.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import numpy.typing as npt
import polars as pl
import typer

from gnn_encoder.base.errors import UserError, report_errors
from gnn_encoder.base.files import read_json, write_json
from gnn_encoder.evaluate.measures import Means, compare, parse
from gnn_encoder.evaluate.tables import (
    NOTHING,
    Table,
    are_of_prepared,
    best_rival,
    difference,
    markdown,
    of_other_data,
    p_value,
    points,
)
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params, load_params
from gnn_encoder.pipeline.project import (
    CONTROL,
    HYBRID,
    JUDGED,
    LEXICAL,
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
FULL = "full"  # the switch that changes nothing
BARE = "untouched_plus"  # labels and query bank upon the base model
TOLERANCE = 0.01  # what another processor, which rounds otherwise, may change of a measure
SHOWN = {"InsuranceQA": SEEDS, "Commands: captions and pages": ("tldr",)}  # of README's table
Values = dict[str, npt.NDArray[np.float64]]  # system -> a measure of the queries, in one order
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
    check_measured(params)
    shutil.rmtree(target / METRICS, ignore_errors=True)
    run = {of: branch.systems for of, branch in registry().branches.items() if are_of_prepared(branch.systems)}
    for branch in run if name != DEFAULT else run.keys() - {MAIN}:  # of the default these and params.yaml are committed
        shutil.copytree(METRICS / branch, target / METRICS / branch)
    if name != DEFAULT:
        text = Path("params.yaml").read_text(encoding="utf-8")
        if path := params.data.path:
            text = re.sub(rf"^(# Made by: .*|  path: .*){re.escape(path)}", r"\1FOLDER", text, flags=re.M)
        (target / "params.yaml").write_text(text, encoding="utf-8")
    (tested,) = parse([params.evaluate.significance])
    systems = [one for systems in run.values() for one in systems]
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
    params, file = load_params(), Path("params.yaml")
    of_record = Params.parsed(at_head(file), file) if name == DEFAULT else load_params(RESULTS / name / file)
    ours, theirs = (one.data.model_dump() for one in (params, of_record))
    if other := [key for key, value in ours.items() if key != "path" and value != theirs[key]]:
        told = f"other {', '.join(other)} than of {name}; run its command in this clone first"
        raise UserError(f"params.yaml, data: {told}")
    check_measured(params)
    measure, worst, rows = params.evaluate.significance, 0.0, list[list[str]]()
    for split in JUDGED:
        for system, recorded in committed(name, split).items():
            cells = [title_of(system), split, points(recorded[measure])]
            if (here := measured_here(system, split)) is None:
                rows.append([*cells, NOTHING, "not run here"])
                continue
            if missing := recorded.keys() - here.keys():
                told = f"has no {', '.join(sorted(missing))} of {system}; run {name}'s command first"
                raise UserError(f"{METRICS}: {told}")
            worst = max(worst, *(abs(value - here[one]) for one, value in recorded.items()))
            rows.append([*cells, points(here[measure]), f"{100 * (here[measure] - recorded[measure]):+.1f}"])
    print(markdown(Table(columns=["system", "split", f"{measure} recorded", "here", "difference"], rows=rows)))
    apart = f"at most {100 * worst:.1f} points apart, {100 * TOLERANCE:.0f} is allowed"
    print(f"\n{name}: all measures of both splits: {'the same' if worst == 0 else apart}")
    raise typer.Exit(int(worst > TOLERANCE))


def at_head(path: Path) -> bytes:
    """A file as it is committed."""
    return subprocess.check_output(["git", "show", f"HEAD:{path.as_posix()}"])


def check_measured(params: Params) -> None:
    """The metrics must be of a run in this clone: where nothing ran they are the committed ones."""
    if told := of_other_data(params, REFERENCE):
        raise UserError(f"{METRICS / MAIN}: {told}; run it first")


def committed(name: str, split: str) -> Means:
    """The committed means of a result, of all its branches."""
    found: Means = {}
    for path in (METRICS / branch / f"{split}.json" for branch in registry().branches):
        if name == DEFAULT and path.parent.name == MAIN:
            found |= json.loads(at_head(path))
        elif (RESULTS / name / path).is_file():
            found |= read_json(RESULTS / name / path, Means)
    return found


def measured_here(system: str, split: str) -> dict[str, float] | None:
    """A system's means in this clone; None if its branch, not the main one, has not run."""
    branch = next(name for name, one in registry().branches.items() if system in one.systems)
    path = METRICS / branch / f"{split}.json"
    return read_json(path, Means).get(system, {}) if branch == MAIN or path.is_file() else None


def readme_table() -> Table:
    """The default and the logs on their test queries: systems, and what each of three steps gains."""
    best = {tuple(names): best_rival(means_of(names, "dev")) for names in SHOWN.values()}
    systems = {
        LEXICAL: "BM25",
        UNTOUCHED: "base model, untouched",
        BARE: "base model + labels + query bank: nothing is trained",
        REFERENCE: "M_de, the dual-encoder that GNN-encoder starts from",
        CONTROL: "the control: M_de trained further by GNN-encoder's loss, without a graph",
        "": "the control + labels + query bank: the best without a graph, by dev",
        MAIN: "**GNN-encoder**",
        PLUS: "**GNN-encoder + labels + query bank**",
        HYBRID: "hybrid of BM25, dense and training queries: one or two look-ups more",
    }
    steps = {
        (CONTROL, REFERENCE): "gained by further training on the queries, M_de to the control",
        ("", CONTROL): "gained by labels and query bank upon the control",
        (PLUS, ""): "gained by the graph with labels and query bank on both",
    }
    rows = [[label] for label in (*systems.values(), *steps.values())]
    for names, without in best.items():
        of, means = values_of(names, "test"), means_of(names, "test")
        cells = [points(means[one or without]) for one in systems]
        cells += [above(of, one or without, other or without) for one, other in steps]
        rows = [[*row, cell] for row, cell in zip(rows, cells, strict=True)]
    return Table(columns=["RR@10", *SHOWN], rows=rows)


def sets_table() -> Table:
    """All recorded results, a row each."""
    columns = ["set", "data", "M_de", "control", "best without a graph", "GNN-encoder", "+ labels + query bank"]
    columns += ["above the control", "the latter above the best", "hybrid", "minutes", "made by"]
    rows = []
    for path in sorted(RESULTS.glob("*/record.json")):
        found, told = read_json(path, Record), scores([path.parent.name])
        made = f"{found.minutes:.0f}", f"`{found.command}`"
        rows.append([f"[{found.title}](../{path.parent})", found.data, *told, *made])
    return Table(columns=columns, rows=rows)


def read_values(path: Path, split: str) -> Values:
    """The values of a split's queries in a recorded table."""
    table = pl.read_parquet(path).filter(split=split).sort("qid")
    return {system: table[system].to_numpy() for system in table.columns[2:]}


def values_of(names: Iterable[str], split: str) -> Values:
    """Each query's values as means over the seeds of some records, of the systems that all of them have."""
    each = [read_values(RESULTS / name / "values.parquet", split) for name in names]
    common = [system for system in each[0] if all(system in of for of in each)]
    return {system: np.mean([of[system] for of in each], axis=0) for system in common}


def means_of(names: Iterable[str], split: str) -> dict[str, float]:
    """The means of what `values_of` gives."""
    return {system: float(of.mean()) for system, of in values_of(names, split).items()}


def scores(names: Iterable[str]) -> list[str]:
    """Test scores, as the table of sets has them: five systems, two gains, the hybrid."""
    test, means, best = values_of(names, "test"), means_of(names, "test"), best_rival(means_of(names, "dev"))
    systems = [points(means[one]) for one in (REFERENCE, CONTROL, best, MAIN, PLUS)]
    return [*systems, above(test, MAIN, CONTROL), above(test, PLUS, best), points(means[HYBRID])]


def above(values: Values, system: str, other: str, *, tested: bool = False) -> str:
    """A cell: the mean difference of two systems with its interval, and its p if that is wanted."""
    found = compare(values[system], values[other], other)
    return difference(found) + (f", {p_value(found.p)}" if tested else "")


def seeds_table() -> Table:
    """The default's systems with each seed."""
    columns = [*(means_of([name], "test") for name in SEEDS), means_of(SEEDS, "test"), means_of(SEEDS, "dev")]
    rows = [[title_of(system), *(points(of[system]) for of in columns)] for system in columns[-1]]
    seeds = [load_params(of / "params.yaml").seed for of in (Path(), *(RESULTS / name for name in SEEDS[1:]))]
    return Table(columns=["RR@10 on test", *(f"seed {seed}" for seed in seeds), "mean", "mean on dev"], rows=rows)


def differences_table() -> Table:
    """Differences of the default's systems, each query's value being its mean over the seeds."""
    splits = [values_of(SEEDS, split) for split in ("test", "dev")]
    rows = [
        [f"{title_of(one)} above {title_of(other)}", *(above(values, one, other, tested=True) for values in splits)]
        for one, other in PAIRS
    ]
    return Table(columns=["RR@10, mean of the seeds", "test", "dev"], rows=rows)


def methods_table() -> Table:
    """The other papers' systems that ran on the default's data, a row each."""
    test, dev, rows = values_of([DEFAULT], "test"), values_of([DEFAULT], "dev"), []
    for branch in [of for name, of in registry().branches.items() if name != MAIN]:
        for system in [one for one in branch.systems if one in test]:
            own = NOTHING if system == branch.baseline else above(test, system, branch.baseline, tested=True)
            told = (
                *(points(float(of[system].mean())) for of in (test, dev)),
                above(test, system, REFERENCE, tested=True),
            )
            rows.append([title_of(system), *told, own])
    return Table(columns=["RR@10", "test", "dev", "above M_de, on test", "above the row before, on test"], rows=rows)


def switches_table() -> Table:
    """GNN-encoder on the default's data with one switch changed."""
    splits, rows = [read_values(RESULTS / DEFAULT / "switches.parquet", split) for split in ("test", "dev")], []
    for switch in splits[0]:
        against = [NOTHING if switch == FULL else above(of, switch, FULL, tested=True) for of in splits]
        means = [points(float(of[switch].mean())) for of in splits]
        rows.append([f"`{switch}`", means[0], against[0], means[1], against[1]])
    return Table(columns=["RR@10", "test", "against `full`", "dev", "against `full`"], rows=rows)


TABLES = {
    (Path("README.md"), "results"): readme_table,
    (Path("docs/results.md"), "sets"): sets_table,
    (Path("docs/results.md"), "seeds"): seeds_table,
    (Path("docs/results.md"), "differences"): differences_table,
    (Path("docs/results.md"), "switches"): switches_table,
    (Path("docs/results.md"), "methods"): methods_table,
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
