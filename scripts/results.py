"""Committed results: record a clone's, compare a clone with them, and fill the documents' tables.

python scripts/results.py record NAME ...    # in a clone that has run; --help says what a record holds
python scripts/results.py check NAME         # in a clone that ran NAME's command; `default`: of the committed metrics/
python scripts/results.py tables             # of README.md and docs/results.md: no number in them is typed by hand
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from gnn_encoder.base.errors import UserError, report_errors
from gnn_encoder.base.files import read_json, write_json
from gnn_encoder.evaluate.measures import Means
from gnn_encoder.evaluate.tables import Claim, Table, difference, markdown, of_other_data, points
from gnn_encoder.pipeline.params import load_params
from gnn_encoder.pipeline.project import CONTROL, JUDGED, MAIN, METRICS, UNTOUCHED, title_of

RESULTS, DEFAULT = Path("results"), "default"
TOLERANCE = 0.01  # what another processor, which rounds otherwise, may change of a measure
BASE, LABELS = "dual_encoder", "the control and its labels: the best without a graph, as dev says"


@dataclass(frozen=True, kw_only=True)
class Record:
    """How the metrics of a folder came about."""

    title: str
    data: str
    command: str
    commit: str
    processor: str
    minutes: float


def record(name: str, given: argparse.Namespace) -> None:
    """Copy what a run in this clone has measured."""
    target = RESULTS / name
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(METRICS / MAIN, target / "metrics" / MAIN)
    text, path = Path("params.yaml").read_text(encoding="utf-8"), load_params().data.path
    (target / "params.yaml").write_text(text.replace(path, "FOLDER") if path else text, encoding="utf-8")
    commit = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True, check=True)
    facts = {field: getattr(given, field) for field in ("title", "data", "command", "processor", "minutes")}
    write_json(target / "record.json", Record(commit=commit.stdout.strip(), **facts))


def check(name: str) -> bool:
    """Print this clone's scores beside the recorded ones; whether none differs by more than the tolerance."""
    if told := of_other_data(load_params(), BASE):  # of a clone in which nothing ran, metrics/ are the committed ones
        raise UserError(f"{METRICS / MAIN}: {told}; run it first")
    measure, worst, rows = load_params().evaluate.significance, 0.0, list[list[str]]()
    for split in JUDGED:
        expected, found = committed(name, split), read_json(METRICS / MAIN / f"{split}.json", Means)
        if missing := {*expected} - {*found}:
            raise UserError(f"{METRICS / MAIN}: {', '.join(sorted(missing))} are not in it; run `dvc repro` first")
        for system, values in expected.items():
            worst = max(worst, *(abs(value - found[system][one]) for one, value in values.items()))
            both = values[measure], found[system][measure]
            rows.append([title_of(system), split, *map(points, both), f"{100 * (both[1] - both[0]):+.1f}"])
    print(
        markdown(Table(title="", columns=["system", "split", f"{measure} recorded", "here", "difference"], rows=rows))
    )
    verdict = "the same" if worst == 0 else f"at most {100 * worst:.1f} points apart, {100 * TOLERANCE:.0f} is allowed"
    print(f"\n{name}: all measures of both splits: {verdict}")
    return worst <= TOLERANCE


def committed(name: str, split: str) -> Means:
    """The committed means of a result."""
    if name != DEFAULT:
        return read_json(RESULTS / name / "metrics" / MAIN / f"{split}.json", Means)
    path = (METRICS / MAIN / f"{split}.json").as_posix()
    found: Means = json.loads(subprocess.run(["git", "show", f"HEAD:{path}"], capture_output=True, check=True).stdout)
    return found


def readme_table() -> Table:
    """The default and a query log on their test queries: the main system beside what it is compared with."""
    sets = {"a sample of InsuranceQA": METRICS / MAIN, "Commands, a query log": RESULTS / "tldr" / "metrics" / MAIN}
    labels = [
        "base model, untouched",
        "M_de, the dual-encoder that GNN-encoder starts from",
        "the control: M_de trained on by the same loss, without a graph",
        LABELS,
        "**GNN-encoder**",
        "above the control",
        "above the best without a graph",
        "hybrid of BM25, dense and the log: two look-ups more",
    ]
    columns = []
    for metrics in sets.values():
        of, best, above = scores(metrics)
        columns.append([of[UNTOUCHED], of[BASE], of[CONTROL], of[best], f"**{of[MAIN]}**", *above, of["hybrid"]])
    return Table(title="", columns=["RR@10", *sets], rows=[list(row) for row in zip(labels, *columns, strict=True)])


def sets_table() -> Table:
    """All recorded results, a row each."""
    columns = ["set", "data", "M_de", "control", "best without a graph", "GNN-encoder", "above the control"]
    columns += ["above the best", "hybrid", "minutes", "how"]
    rows = []
    for path in sorted(RESULTS.glob("*/record.json")):
        of, best, above = scores(path.parent / "metrics" / MAIN)
        found = read_json(path, Record)
        how = f"`{found.command}`, commit {found.commit}, {found.processor}"
        told = [of[BASE], of[CONTROL], of[best], of[MAIN], *above, of["hybrid"]]
        rows.append([f"[{found.title}](../{path.parent})", found.data, *told, f"{found.minutes:.0f}", how])
    return Table(title="", columns=columns, rows=rows)


def scores(metrics: Path) -> tuple[dict[str, str], str, list[str]]:
    """Test scores by the measure of the claim, the best rival, and the gains above the control and that rival."""
    claim, means = read_json(metrics / "claim.json", Claim), read_json(metrics / "test.json", Means)
    above = [difference(claim.against[rival]["test"]) for rival in (CONTROL, claim.best)]
    return {system: points(values[claim.measure]) for system, values in means.items()}, claim.best, above


TABLES = {
    (Path("README.md"), "results"): readme_table,
    (Path("docs/results.md"), "sets"): sets_table,
}


def filled(path: Path, mark: str) -> str:
    """A document's text with its table as it is made of the committed metrics."""
    table = f"<!-- {mark} -->\n{markdown(TABLES[path, mark]())}\n<!-- /{mark} -->"
    parts = re.split(f"<!-- {mark} -->.*<!-- /{mark} -->", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return table.join(parts)


def main() -> int:
    """Run the command that was given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="what", required=True)
    recorder = commands.add_parser("record")
    for field in ("title", "data", "command", "processor"):
        recorder.add_argument(f"--{field}", required=True)
    recorder.add_argument("--minutes", type=float, required=True)
    for one in (recorder, commands.add_parser("check")):
        one.add_argument("name")
    commands.add_parser("tables")
    given = parser.parse_args()
    if given.what == "record":
        record(given.name, given)
    elif given.what == "check":
        return 0 if check(given.name) else 1
    else:
        for path, mark in TABLES:
            path.write_text(filled(path, mark), encoding="utf-8")
    return 0


if __name__ == "__main__":
    with report_errors():
        sys.exit(main())
