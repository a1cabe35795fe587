"""Fill the marked sections of README.md from what was measured: results, DAG, computed costs. Nothing is typed in.

    python scripts/update_readme.py --minutes 13.2 --date 2026-01-31

Run it after `dvc repro`; the time is that of the run, the date the day of it.
"""

import argparse
import json
import platform
import re
import subprocess
import sys
from pathlib import Path

import torch

from gnn_encoder.encoders.device import supports_bf16
from gnn_encoder.params import load_params

NAMES = {
    "bm25": "BM25",
    "retriever": "first retriever (DPR)",
    "dual_encoder": "M_de",
    "no_gnn": "control without GNN",
    "gnn_encoder": "**GNN-encoder**",
}


def processor() -> str:
    """What ran it: GPU name, else the CPU's and how many cores."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    names = re.findall(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    feature = "bf16" if supports_bf16() else "no bf16"
    return f"{names[0] if names else platform.processor()}, {len(names)} cores, {feature}"


def results(minutes: float, date: str) -> str:
    """Measured quality on the test questions, with paired significance against M_de."""
    test = json.loads(Path("metrics/test.json").read_text())
    compared = json.loads(Path("metrics/significance.json").read_text())["test"]
    params = load_params()
    measures = list(next(iter(test.values())))
    tested = params.evaluate.significance
    lines = [
        f"| test questions, points of 100 | {' | '.join(measures)} | {tested} against M_de |",
        "|---|" + "---|" * (len(measures) + 1),
    ]
    for system, values in test.items():
        cells = " | ".join(f"{100 * values[m]:.1f}" for m in measures)
        lines.append(f"| {NAMES[system]} | {cells} | {difference(compared.get(system))} |")
    statistics = json.loads(Path("data/prepared/statistics.json").read_text())
    train = statistics["train"]["questions"]
    made = f"InsuranceQA, the default `params.yaml` ({train} training questions, the whole corpus, seed {params.seed})"
    where = f"{processor()}, {date}: the whole `dvc repro` took {minutes:.1f} minutes"
    last = "The last column: mean difference, its 95% interval and the p of a paired t-test over questions."
    return "\n".join([*lines, "", f"{made}, {where}. {last}"])


def difference(row: dict[str, float] | None) -> str:
    """A paired comparison in one cell."""
    if row is None:
        return "-"
    low, high = 100 * row["low"], 100 * row["high"]
    return f"{100 * row['difference']:+.1f} [{low:+.1f}, {high:+.1f}], p = {row['p']:.1g}"


def run(*command: str) -> str:
    """Standard output of a command of this environment."""
    return subprocess.run([sys.executable, *command], check=True, capture_output=True, text=True).stdout.strip()


def main() -> None:
    """Rewrite the sections."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--date", required=True)
    arguments = parser.parse_args()
    readme = Path("README.md")
    text = readme.read_text(encoding="utf-8")
    sections = {
        "results": results(arguments.minutes, arguments.date),
        "dag": run("-m", "dvc", "dag", "--md"),
        "cost": run("benchmarks/cost.py"),
    }
    for name, content in sections.items():
        pattern = rf"<!-- {name} -->.*<!-- /{name} -->"
        text = re.sub(pattern, lambda _, c=content, n=name: f"<!-- {n} -->\n{c}\n<!-- /{n} -->", text, flags=re.S)
    readme.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
