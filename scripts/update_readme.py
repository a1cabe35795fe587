"""Fill the marked sections of README.md and docs/evidence.md from what was measured. Nothing is typed in.

    python scripts/update_readme.py --minutes 14.2 --all-minutes 43.5 --date 2026-01-31

Run it after `dvc repro`; the times are those of `dvc repro evaluate@gnn_encoder` and of all branches, the date the day.
Where the stage compare has not run, it takes the branches that have been evaluated, and leaves costs as they are.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import torch

from gnn_encoder.core import project
from gnn_encoder.core.params import load_params
from gnn_encoder.evaluation.cost_record import Costs
from gnn_encoder.models.device import supports_bf16
from gnn_encoder.presenting.artifacts import Missing, read_records
from gnn_encoder.presenting.compared import read_results
from gnn_encoder.presenting.costs import costs_table
from gnn_encoder.presenting.dag import as_mermaid
from gnn_encoder.presenting.lanes import arrange
from gnn_encoder.presenting.page.machine import processor
from gnn_encoder.presenting.pipeline import read_pipeline
from gnn_encoder.presenting.results import results_table
from gnn_encoder.presenting.tables import markdown, titled

COSTS = project.METRICS / "costs.json"


def machine() -> str:
    """What ran it: GPU name, else the CPU's, how many cores, and whether it multiplies bf16."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return f"{processor()}, {os.cpu_count()} cores, {'bf16' if supports_bf16() else 'no bf16'}"


def results(minutes: float, all_minutes: float | None, date: str) -> str:
    """Measured quality on the test queries, with paired significance against M_de and against a branch's baseline."""
    params = load_params()
    found = read_results({})
    if isinstance(found, Missing):
        raise SystemExit(f"error: {found.what}: {found.command}")
    test = [one for one in found if one.split == "test" and not one.sampled]
    tables = [titled(results_table(one, params.evaluate.significance)) for one in test]
    statistics = json.loads((project.PREPARED / "statistics.json").read_text(encoding="utf-8"))
    train = statistics["train"]["queries"]
    made = f"InsuranceQA, the default `params.yaml` ({train} training queries, the whole corpus, seed {params.seed})"
    where = f"{machine()}, {date}: `dvc repro evaluate@gnn_encoder` took {minutes:.1f} minutes"
    whole = f", all branches together {all_minutes:.1f}" if all_minutes else ""
    last = "Differences: mean, its 95% interval, p of a paired t-test over queries after Holm's correction."
    return "\n\n".join([*tables, f"{made}, {where}{whole}. {last} ▲ and ▼: p below 0.05."])


def costs() -> str:
    """What each dense system costs online and in training."""
    return markdown(costs_table(read_records(COSTS, dict[str, Costs]) or {}))


def run(*command: str) -> str:
    """Standard output of a command of this environment."""
    return subprocess.run([sys.executable, *command], check=True, capture_output=True, text=True).stdout.strip()


def fill(file: Path, sections: dict[str, str]) -> None:
    """Put each section between its marks in a Markdown file."""
    text = file.read_text(encoding="utf-8")
    for name, content in sections.items():
        pattern = rf"<!-- {name} -->.*<!-- /{name} -->"
        text = re.sub(pattern, lambda _, c=content, n=name: f"<!-- {n} -->\n{c}\n<!-- /{n} -->", text, flags=re.S)
    file.write_text(text, encoding="utf-8")


def main() -> None:
    """Rewrite the sections."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--all-minutes", type=float)
    parser.add_argument("--date", required=True)
    arguments = parser.parse_args()
    sections = {
        "results": results(arguments.minutes, arguments.all_minutes, arguments.date),
        "dag": as_mermaid(arrange(read_pipeline())),
        "cost": run("benchmarks/cost.py"),
    }
    if COSTS.is_file():
        sections["costs"] = costs()
    fill(Path("README.md"), sections)
    if (tables := project.EVIDENCE / "tables.md").is_file():
        fill(Path("docs/evidence.md"), {"evidence": tables.read_text(encoding="utf-8").strip()})


if __name__ == "__main__":
    main()
