"""Fill the marked sections of README, docs/ and results/ from what was measured. No number in them is typed in.

    python scripts/update_docs.py                                       # README's table alone
    python scripts/update_docs.py --minutes 14.2 --all-minutes 43.5     # all of them

README's table is of committed metrics. For the others run it after `dvc repro`; the times are those of `dvc repro` and
of all branches. It takes the branches that have been evaluated.
"""

import argparse
import json
import re
from datetime import date
from pathlib import Path

from gnn_encoder.base.errors import UserError, report_errors
from gnn_encoder.evaluate.claim import Claim, advice, claim_sentence, read_claim
from gnn_encoder.evaluate.measures import Means
from gnn_encoder.evaluate.tables import (
    HOW_TO_READ,
    Table,
    branch_tables,
    choices_table,
    difference,
    markdown,
    points,
    read_choices,
    read_record,
    titled,
)
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import load_params
from gnn_encoder.pipeline.project import MAIN, UNTOUCHED, registry
from gnn_encoder.text.device import processor, supports_bf16
from gnn_encoder.text.encoder import UNTOUCHED_LENGTH

# README's table: its rows, and the metrics of each column's experiment, which are committed.
ROWS = (
    "base model, untouched",
    "M_de, the dual-encoder that GNN-encoder starts from",
    "M_de and its labels: the best without a graph, as dev says",
    "**GNN-encoder**",
    "above the best without a graph",
    "hybrid of BM25, dense and the log: two look-ups more",
)
SETS = {
    "InsuranceQA": project.METRICS,
    "Commands": Path("results/tldr/metrics"),
    "Bible topics": Path("results/bible/metrics"),
    "Dictionary": Path("results/dictionary/metrics"),
}


def overview() -> Table:
    """The main system beside what it is compared with, a column a set, on its test queries."""
    columns = [column(metrics / MAIN) for metrics in SETS.values()]
    return Table(title="", columns=["RR@10", *SETS], rows=[list(row) for row in zip(ROWS, *columns, strict=True)])


def column(metrics: Path) -> list[str]:
    """One experiment's cells, in the order of ROWS."""
    claim, means = read_record(metrics / "claim.json", Claim), read_record(metrics / "test.json", Means)
    if claim is None or means is None:
        raise UserError(f"{metrics}: has no claim.json or no test.json; `git checkout {metrics}` brings them back")
    of = {system: points(values[claim.measure]) for system, values in means.items()}
    first = [of[UNTOUCHED], of["dual_encoder"], of[claim.best], f"**{of[MAIN]}**"]
    return [*first, difference(claim.against["test"]), of["hybrid"]]


def quality(told: str) -> str:
    """Every system on the test queries, in a table a branch; the claim; and `told`, what all are of."""
    params, claim = load_params(), read_claim()
    tested = params.evaluate.significance
    tables = [titled(one) for branch in registry().branches for one in branch_tables(branch, tested, ("test",))]
    if not tables:
        raise UserError("metrics/: nothing has been evaluated; run `dvc repro` first")
    sentences = [claim_sentence(claim), advice(claim)] if claim else []
    return "\n\n".join([*tables, *filter(None, sentences), f"{told} {HOW_TO_READ}"])


def provenance() -> str:
    """What the results are of: queries, seed, machine, date, and how much of a passage systems read."""
    params = load_params()
    queries = json.loads((project.PREPARED / "statistics.json").read_text(encoding="utf-8"))["train"]["queries"]
    day = date.fromtimestamp((project.METRICS / MAIN / "test.json").stat().st_mtime)
    machine = f"{processor()}, {'bf16' if supports_bf16() else 'no bf16'}"
    return (
        f"{queries:,} training queries, seed {params.seed}, on {machine}; {day}. "
        f"Trained systems read at most {params.encoder.passage_length} tokens of a passage, the untouched model "
        f"at most {max(UNTOUCHED_LENGTH, params.encoder.passage_length)}, BM25 all."
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
    parser.add_argument("--minutes", type=float, help="of `dvc repro`; without it README's table alone is filled")
    parser.add_argument("--all-minutes", type=float, help="of all branches")
    given = parser.parse_args()
    if given.all_minutes is not None and given.minutes is None:
        parser.error("--all-minutes needs --minutes")
    fill(Path("README.md"), {"results": markdown(overview())})
    if given.minutes is None:
        return
    whole = f", all branches together {given.all_minutes:.1f}" if given.all_minutes else ""
    told = f"{provenance()} `dvc repro` took {given.minutes:.1f} minutes{whole}."
    results = {"all-results": quality(f"InsuranceQA with the default `params.yaml`: {told}")}
    if choices := read_choices():
        results["choices"] = titled(choices_table(choices))
    fill(Path("docs/results.md"), results)


if __name__ == "__main__":
    with report_errors():
        main()
