"""Fill the marked sections of README.md and docs/ from what was measured. No number in them is typed in.

    python scripts/update_readme.py --minutes 14.2 --all-minutes 43.5 --date 2026-01-31

Run it after `dvc repro`; the times are those of `dvc repro evaluate@gnn_encoder` and of all branches, the date the day.
Where the stage compare has not run, it takes the branches that have been evaluated, and leaves costs as they are.

    README.md           results       the systems to choose between, in this experiment and in the one of results/
    docs/results.md     all-results   every system and measure
                        choices       what the systems without training chose on dev
                        costs         what each dense system costs
    docs/costs.md       cost          corpora of full size, computed
    docs/evidence.md    evidence      the paper's tables and figures
"""

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import torch

from gnn_encoder.evaluation.cost_record import Costs
from gnn_encoder.models.device import processor, supports_bf16
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params, load_params
from gnn_encoder.pipeline.systems import registry, title_of
from gnn_encoder.presenting.conclusions import advice, choices_table, claim_sentence
from gnn_encoder.presenting.cost_table import costs_table
from gnn_encoder.presenting.formats import NOTHING, points
from gnn_encoder.presenting.quality import Results, results_table
from gnn_encoder.presenting.stored import read_choices, read_claim, read_record, read_results
from gnn_encoder.presenting.tables import Table, markdown, titled

README, DOCS = Path("README.md"), Path("docs")
COSTS = project.METRICS / "costs.json"
# What README.md shows: the systems that a user chooses between, some measures, of experiments whose metrics are kept.
SYSTEMS = (
    *("bm25", "untouched", "dual_encoder", "no_gnn", "query_mean", "label_prior", "gnn_encoder", "hybrid"),
    *("dual_encoder_distilled", "gnn_encoder_distilled", "pair", "dual_cross"),
)
MEASURES = ("RR@10", "nDCG@10", "R@100")
EXPERIMENTS = {"all": Path("results/insuranceqa/metrics"), "default": project.METRICS}
HOW_TO_READ = (
    "A difference is a mean with its 95% interval; p is that of a paired t-test over queries after Holm's correction "
    "over all systems that were compared, and ▲ and ▼ mark p below 0.05. Intervals are over queries, with the "
    "seed held fixed."
)


def machine() -> str:
    """What ran it: GPU name, else the CPU's, how many cores, and whether it multiplies bf16."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return f"{processor()}, {os.cpu_count()} cores, {'bf16' if supports_bf16() else 'no bf16'}"


def measured() -> list[Results]:
    """Every system on the test queries: in one table, or in one a branch where compare has not run."""
    found = read_results({})
    if not found:
        raise SystemExit("error: no system has been evaluated yet: dvc repro evaluate@gnn_encoder")
    return [one for one in found if one.split == "test" and not one.sampled]


def means(folder: Path) -> dict[str, dict[str, float]]:
    """System -> measure -> mean of the test queries, of the systems that an experiment judges on all of them."""
    branches = [name for name, branch in registry().branches.items() if not branch.sampled]
    files = [folder / name / "test.json" for name in branches]
    found: dict[str, dict[str, float]] = {}
    for path in filter(Path.is_file, files):
        found |= json.loads(path.read_text(encoding="utf-8"))
    return found


def overview() -> Table:
    """The systems of README.md, with the measures of each experiment side by side."""
    experiments = {name: means(folder) for name, folder in EXPERIMENTS.items()}
    columns = [f"{name}: {measure}" for name in experiments for measure in MEASURES]
    rows = [
        [title_of(system), *(_points(of, system, measure) for of in experiments.values() for measure in MEASURES)]
        for system in SYSTEMS
    ]
    return Table(title="", columns=["System", *columns], rows=rows)


def _points(of: dict[str, dict[str, float]], system: str, measure: str) -> str:
    return points(of[system][measure]) if system in of else NOTHING


def quality(found: list[Results], told: str) -> str:
    """Tables with differences from M_de and from a system's own baseline; below them the claim, and what all are of.

    Args:
        told: what the results are of.
    """
    tested, claim = load_params().evaluate.significance, read_claim()
    sentences = [claim_sentence(claim), advice(claim)] if claim else []
    tables = (titled(results_table(one, tested)) for one in found if one.means)
    return "\n\n".join([*tables, *filter(None, sentences), f"{told} {HOW_TO_READ}"])


def lengths(params: Params) -> str:
    """How much of a passage the systems read."""
    read, untouched = params.encoder.passage_length, params.untouched.passage_length
    at_most = f"at most {untouched}" if untouched else "all that it can"
    return f"Trained systems read at most {read} tokens of a passage, the untouched model {at_most}, BM25 all."


def training_queries() -> int:
    """How many there are."""
    statistics = json.loads((project.PREPARED / "statistics.json").read_text(encoding="utf-8"))
    found: int = statistics["train"]["queries"]
    return found


def provenance(minutes: float, all_minutes: float | None, date: str) -> str:
    """What the results are of: data, machine, date, minutes."""
    params = load_params()
    whole = f", all branches together {all_minutes:.1f}" if all_minutes else ""
    sentences = (
        f"Measured on InsuranceQA with the default `params.yaml` ({training_queries():,} training queries, the whole "
        f"corpus, seed {params.seed}) on {machine()}, on {date}. {lengths(params)}",
        f"`dvc repro evaluate@gnn_encoder` took {minutes:.1f} minutes{whole}.",
    )
    return " ".join(sentences)


def costs() -> str:
    """What each dense system costs online and in training."""
    return markdown(costs_table(read_record(COSTS, dict[str, Costs]) or {}))


def run(*command: str) -> str:
    """Standard output of a command of this environment."""
    return subprocess.run([sys.executable, *command], check=True, capture_output=True, text=True).stdout.strip()


def fill(file: Path, sections: dict[str, str]) -> None:
    """Put each section between its marks in a Markdown file."""
    text = file.read_text(encoding="utf-8")
    for name, content in sections.items():
        pattern = rf"<!-- {name} -->.*<!-- /{name} -->"
        if not re.search(pattern, text, flags=re.DOTALL):
            raise SystemExit(
                f"error: {file}: has no section {name}; put <!-- {name} --> and <!-- /{name} --> around it"
            )
        section = f"<!-- {name} -->\n{content}\n<!-- /{name} -->"
        text = re.sub(pattern, lambda _, filled=section: filled, text, flags=re.DOTALL)
    file.write_text(text, encoding="utf-8")


def main() -> None:
    """Rewrite the sections."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, required=True, help="of `dvc repro evaluate@gnn_encoder`")
    parser.add_argument("--all-minutes", type=float, help="of all branches")
    parser.add_argument("--date", required=True, help="the day")
    arguments = parser.parse_args()
    found, told = measured(), provenance(arguments.minutes, arguments.all_minutes, arguments.date)
    fill(README, {"results": f"{markdown(overview())}\n\nThe columns *default*: {told[0].lower()}{told[1:]}"})
    fill(DOCS / "results.md", {"all-results": quality(found, told)})
    if choices := read_choices():
        fill(DOCS / "results.md", {"choices": titled(choices_table(choices))})
    if COSTS.is_file():
        fill(DOCS / "results.md", {"costs": costs()})
    fill(DOCS / "costs.md", {"cost": run("benchmarks/cost.py")})
    if (tables := project.EVIDENCE / "tables.md").is_file():
        fill(DOCS / "evidence.md", {"evidence": tables.read_text(encoding="utf-8").strip()})


if __name__ == "__main__":
    main()
