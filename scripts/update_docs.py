"""Fill the marked sections of docs/ and results/ from what was measured. No number in them is typed in.

    python scripts/update_docs.py --minutes 14.2 --all-minutes 43.5 --date 2026-01-31

Run it after `dvc repro`; the times are those of `dvc repro` and of all branches, the date the day.
Where the stage compare has not run, it takes the branches that have been evaluated, and leaves costs as they are.
"""

import argparse
import json
import re
from pathlib import Path

from gnn_encoder.core.errors import UserError, report_errors
from gnn_encoder.evaluation.costs import Costs
from gnn_encoder.models.device import processor, supports_bf16
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.declared import PIPELINE, read_stages
from gnn_encoder.pipeline.experiment import load_experiment
from gnn_encoder.pipeline.params import load_params
from gnn_encoder.pipeline.systems import MAIN, registry, title_of
from gnn_encoder.planning import named
from gnn_encoder.presenting.compared import costs_table
from gnn_encoder.presenting.conclusions import advice, choices_table, claim_sentence
from gnn_encoder.presenting.formats import NOTHING, points
from gnn_encoder.presenting.quality import results_table
from gnn_encoder.presenting.stored import (
    is_of_prepared,
    read_choices,
    read_claim,
    read_json,
    read_record,
    read_results,
)
from gnn_encoder.presenting.tables import Table, markdown, titled

# What stands side by side: the systems that a user chooses between, some measures, of experiments that are kept.
SYSTEMS = (
    *("bm25", "untouched", "dual_encoder", "no_gnn", "labels_alone", "label_prior", "gnn_encoder", "hybrid"),
    *("dual_encoder_distilled", "gnn_encoder_distilled", "pair", "dual_cross"),
)
MEASURES = ("RR@10", "nDCG@10", "R@100")
EXPERIMENTS = {"all": Path("results/insuranceqa/metrics"), "default": project.METRICS}
FULL_SIZE = {"MS MARCO": "msmarco", "Natural Questions": "nq"}
HOW_TO_READ = (
    "A difference is a mean with its 95% interval; p is that of a paired t-test over queries after Holm's correction "
    "over all systems that were compared, and ▲ and ▼ mark p below 0.05. Intervals are over queries, with the "
    "seed held fixed."
)


def overview() -> Table:
    """The systems that a user chooses between, with the measures of each experiment on its test queries."""
    branches = [name for name, branch in registry().branches.items() if not branch.sampled]
    found = {
        name: {
            system: of for branch in branches for system, of in (read_json(folder / branch / "test.json") or {}).items()
        }
        for name, folder in EXPERIMENTS.items()
    }
    cells = {
        system: [points(of[system][one]) if system in of else NOTHING for of in found.values() for one in MEASURES]
        for system in SYSTEMS
    }
    columns = [f"{name}: {measure}" for name in found for measure in MEASURES]
    rows = [[title_of(system), *values] for system, values in cells.items()]
    return Table(title="", columns=["System", *columns], rows=rows)


def quality(told: str) -> str:
    """Every system on the test queries, in one table or in one a branch; the claim; and `told`, what all are of."""
    params, claim = load_params(), read_claim()
    found = [one for one in read_results() if one.split == "test" and not one.sampled]
    found = [one for one in found if all(map(is_of_prepared, one.means))]  # not the committed ones of other data
    if not found:
        raise UserError("metrics/: nothing has been evaluated; run `dvc repro` first")
    tables = [titled(results_table(one, params.evaluate.significance)) for one in found]
    sentences = [claim_sentence(claim), advice(claim)] if claim else []
    return "\n\n".join([*tables, *filter(None, sentences), f"{told} {HOW_TO_READ}"])


def at_full_size() -> Table:
    """What the papers' experiments take on eight A100: the main branch's stages by name, and two other branches."""
    columns, found = ["eight A100, computed"], dict[str, list[str]]()
    for title, config in FULL_SIZE.items():
        params, sums = load_experiment(Path(f"configs/{config}.yaml")), dict[str, list[float]]()
        for stage in read_stages():
            branch = MAIN if stage.file == Path(PIPELINE) else stage.file.parent.name
            (need,) = named.needs(params, named.sizes_of(params.data, None, None), "a100", 8, [stage])
            rows = [stage.name, "all of `dvc repro`"] if branch == MAIN else [f"all of pipelines/{branch}"]
            for row in rows if branch in (MAIN, "pair", "dual_cross") else []:
                hours, disk, memory = sums.get(row, [0.0, 0.0, 0.0])
                sums[row] = [hours + need.hours, disk + need.disk / named.GIB, max(memory, need.memory / named.GIB)]
        columns += [f"{title}: hours", "disk, GiB", "memory, GiB"]
        for row, (hours, disk, memory) in sums.items():
            found.setdefault(row, [row]).extend([f"{hours:.1f}", f"{disk:,.0f}", f"{memory:,.0f}"])
    return Table(title="", columns=columns, rows=sorted(found.values(), key=lambda row: row[0].startswith("all of")))


def provenance(date: str) -> str:
    """What the results are of: queries, seed, machine, date, and how much of a passage systems read."""
    params = load_params()
    queries = json.loads((project.PREPARED / "statistics.json").read_text(encoding="utf-8"))["train"]["queries"]
    untouched = params.untouched.passage_length
    machine = f"{processor()}, {'bf16' if supports_bf16() else 'no bf16'}"
    return (
        f"{queries:,} training queries, seed {params.seed}, on {machine}; {date}. "
        f"Trained systems read at most {params.encoder.passage_length} tokens of a passage, the untouched model "
        f"{f'at most {untouched}' if untouched else 'all that it can'}, BM25 all."
    )


def fill(file: Path, sections: dict[str, str]) -> None:
    """Put each section between its marks in a Markdown file."""
    text = file.read_text(encoding="utf-8")
    for name, content in sections.items():
        pattern = rf"<!-- {name} -->.*<!-- /{name} -->"
        if not re.search(pattern, text, flags=re.DOTALL):
            raise UserError(f"{file}: has no section {name}; put <!-- {name} --> and <!-- /{name} --> around it")
        section = f"<!-- {name} -->\n{content}\n<!-- /{name} -->"
        text = re.sub(pattern, lambda _, filled=section: filled, text, flags=re.DOTALL)
    file.write_text(text, encoding="utf-8")


def main() -> None:
    """Rewrite the sections."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, required=True, help="of `dvc repro`")
    parser.add_argument("--all-minutes", type=float, help="of all branches")
    parser.add_argument("--date", required=True, help="the day")
    given = parser.parse_args()
    whole = f", all branches together {given.all_minutes:.1f}" if given.all_minutes else ""
    told = f"{provenance(given.date)} `dvc repro` took {given.minutes:.1f} minutes{whole}."
    results = {
        "results": f"{markdown(overview())}\n\nThe columns *default*: InsuranceQA, {told}",
        "all-results": quality(f"InsuranceQA with the default `params.yaml`: {told}"),
    }
    if choices := read_choices():
        results["choices"] = titled(choices_table(choices))
    if costs := read_record(project.METRICS / "costs.json", dict[str, Costs]):
        results["costs"] = markdown(costs_table(costs))
    fill(Path("docs/results.md"), results)
    fill(Path("docs/costs.md"), {"cost": markdown(at_full_size())})
    if (tables := project.EVIDENCE / "tables.md").is_file():
        fill(Path("results/evidence.md"), {"evidence": tables.read_text(encoding="utf-8").strip()})


if __name__ == "__main__":
    with report_errors():
        main()
