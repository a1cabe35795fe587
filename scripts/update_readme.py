"""Fill the marked sections of README.md and docs/evidence.md from what was measured. Nothing is typed in.

    python scripts/update_readme.py --minutes 14.2 --all-minutes 43.5 --date 2026-01-31

Run it after `dvc repro`; the times are those of `dvc repro evaluate@gnn_encoder` and of all branches, the date the day.
Where the stage compare has not run, it takes the branches that have been evaluated, and leaves costs as they are.
"""

import argparse
import json
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from gnn_encoder.core import project
from gnn_encoder.core.params import load_params
from gnn_encoder.models.device import supports_bf16
from gnn_encoder.report.names import name_of

BOLD = ("gnn_encoder", "pair", "dual_cross")  # the papers' own


def processor() -> str:
    """What ran it: GPU name, else the CPU's and how many cores."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    names = re.findall(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    feature = "bf16" if supports_bf16() else "no bf16"
    return f"{names[0] if names else platform.processor()}, {len(names)} cores, {feature}"


def read(name: str) -> Any:
    """A file of metrics/."""
    return json.loads((project.METRICS / f"{name}.json").read_text(encoding="utf-8"))


def measured() -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Of the test questions: means by system, comparisons with M_de, comparisons with a branch's baseline."""
    if (project.METRICS / "test.json").is_file():
        return read("test"), read("significance")["test"], read("baselines")["test"]
    test: dict[str, Any] = {}
    own: dict[str, Any] = {}
    for branch, settings in project.BRANCHES.items():
        if not settings.sampled and (project.METRICS / branch / "test.json").is_file():
            test |= read(f"{branch}/test")
            own |= read(f"{branch}/significance")["test"]
    return test, {name: found for name, found in own.items() if found["baseline"] == "dual_encoder"}, own


def results(minutes: float, all_minutes: float | None, date: str) -> str:
    """Measured quality on the test questions, with paired significance against M_de and against a branch's baseline."""
    test, reference, own = measured()
    params = load_params()
    measures, tested = list(next(iter(test.values()))), params.evaluate.significance
    header = ["test questions, points of 100", *measures, f"{tested} against M_de", "against its own baseline"]
    lines = [row(header), "|---" * len(header) + "|"]
    for system, values in test.items():
        cells = [f"{100 * values[m]:.1f}" for m in measures]
        found = own.get(system)
        against = f"{name_of(found['baseline'])}: {difference(found)}" if found else "-"
        lines.append(row([shown(system), *cells, difference(reference.get(system)), against]))
    statistics = json.loads((project.PREPARED / "statistics.json").read_text(encoding="utf-8"))
    train = statistics["train"]["questions"]
    made = f"InsuranceQA, the default `params.yaml` ({train} training questions, the whole corpus, seed {params.seed})"
    where = f"{processor()}, {date}: `dvc repro evaluate@gnn_encoder` took {minutes:.1f} minutes"
    whole = f", all branches together {all_minutes:.1f}" if all_minutes else ""
    last = "Differences: mean, its 95% interval, p of a paired t-test over questions after Holm's correction."
    return "\n".join([*lines, "", f"{made}, {where}{whole}. {last}"])


def costs() -> str:
    """What each dense system costs online and in training."""
    header = ["system", "vectors a passage", "bytes a passage", "encode, ms", "search, ms", "training, s"]
    lines = [row(header), "|---" * len(header) + "|"]
    for system, cost in read("costs").items():
        seconds = "-" if cost["training_seconds"] is None else f"{cost['training_seconds']:.0f}"
        numbers = [f"{cost['vectors_a_passage']:g}", f"{cost['bytes_a_passage']:.0f}"]
        numbers += [f"{cost['encode_ms']:.2f}", f"{cost['search_ms']:.2f}", seconds]
        lines.append(row([shown(system), *numbers]))
    return "\n".join(lines)


def shown(system: str) -> str:
    """A system's name in a table."""
    return f"**{name_of(system)}**" if system in BOLD else name_of(system)


def row(cells: list[str]) -> str:
    """A row of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def difference(found: dict[str, float] | None) -> str:
    """A paired comparison in one cell."""
    if found is None:
        return "-"
    low, high = 100 * found["low"], 100 * found["high"]
    return f"{100 * found['difference']:+.1f} [{low:+.1f}, {high:+.1f}], p = {found['p_holm']:.1g}"


def stages() -> str:
    """The DAG of DVC with a node a stage, the systems that it runs for left out."""
    drawn = run("-m", "dvc", "dag", "--md")
    names = {node: name.partition("@")[0] for node, name in re.findall(r'(node\d+)\["([^"]+)"\]', drawn)}
    arrows = {(names[a], names[b]) for a, b in re.findall(r"(node\d+)-->(node\d+)", drawn)}
    # Every stage reads the prepared tables: drawn for none but the first.
    kept = sorted((a, b) for a, b in arrows if a != b and (a != "prepare" or b == "bm25"))
    return "\n".join(["```mermaid", "flowchart TD", *(f"\t{a}-->{b}" for a, b in kept), "```"])


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
        "dag": stages(),
        "cost": run("benchmarks/cost.py"),
    }
    if (project.METRICS / "costs.json").is_file():
        sections["costs"] = costs()
    fill(Path("README.md"), sections)
    if (tables := project.EVIDENCE / "tables.md").is_file():
        fill(Path("docs/evidence.md"), {"evidence": tables.read_text(encoding="utf-8").strip()})


if __name__ == "__main__":
    main()
