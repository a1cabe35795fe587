"""Hubs, passages that many queries find, and what the query bank makes of them, on the default data without a graph.

Of each system: how many of all first ten places the 1% of passages have that are found most often. Of the control:
RR@10 with a bank of its labelled queries, of as many whose labels the default hides, and of all; also of the hidden
queries, asked again by their hidden labels, each of which is in the bank of all and lowers its own answer.
Requirement: a bank of hidden queries gains significantly on dev and test, and the bank of all on those asked again.

    dvc repro
    python benchmarks/hubs.py
"""

from dataclasses import asdict, replace

import harness
import polars as pl

from gnn_encoder.base.errors import report_errors
from gnn_encoder.base.judgements import relevant_pairs, with_rows
from gnn_encoder.base.matrix import Matrix
from gnn_encoder.base.runs import read_run
from gnn_encoder.base.tables import UNLABELLED, count_rows
from gnn_encoder.controls.closed_form import DEPTH
from gnn_encoder.controls.write import Change, Encoded, dev_queries, lowered
from gnn_encoder.data.formats import open_insuranceqa
from gnn_encoder.evaluate.measures import Floats, compare
from gnn_encoder.evaluate.tables import difference, points
from gnn_encoder.inform import reciprocal_ranks
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import load_params
from gnn_encoder.pipeline.project import CONTROL, JUDGED, MAIN, PLUS, REFERENCE, UNTOUCHED

SHARE = 0.01
SYSTEMS = (UNTOUCHED, REFERENCE, CONTROL, MAIN, f"{CONTROL}_plus", PLUS)


def held(system: str, split: str) -> float:
    """The share of the first places that the most found passages have."""
    found = read_run(project.run_file(system, split)).filter(pl.col("rank") <= DEPTH)
    often = found.group_by("pid").len()["len"].sort(descending=True)
    return float(often.head(max(1, round(SHARE * count_rows(project.PASSAGES)))).sum() / len(found))


def hidden_pairs() -> pl.DataFrame:
    """Labels that the default does not read: columns query, the row of a query without labels, and passage."""
    answers = [(one.qid, one.pid) for _, one in open_insuranceqa().judgements["train"]()]
    pairs = pl.DataFrame(answers, schema=["qid", "pid"], orient="row")
    return with_rows(pairs, project.queries(UNLABELLED), project.PASSAGES).drop_nulls()


def plain(_: int, block: Matrix) -> Matrix:
    """Passages as they are."""
    return block


def main() -> None:
    options, params = harness.parser("hubs", __doc__).parse_args(), load_params()
    shares = {system: {split: held(system, split) for split in JUDGED} for system in SYSTEMS}
    harness.print_table(
        ["the 1% most found", *JUDGED], [[name, *map(points, of.values())] for name, of in shares.items()]
    )
    queries, dev, m = (
        Encoded.of(CONTROL, project.runs(CONTROL), params),
        dev_queries(params),
        count_rows(project.PASSAGES),
    )
    known = count_rows(project.queries("train"))
    queries = replace(queries, splits={**queries.splits, UNLABELLED: queries.bank[known:]})
    banks = {"labelled": queries.bank[:known], "hidden": queries.bank[known:][:known], "all": queries.bank}
    forms: dict[str, Change] = {"none": plain}
    for name, bank in banks.items():
        _, forms[name] = lowered(replace(queries, bank=bank), plain, dev, params.cache_passages.dtype)
    pairs = {split: relevant_pairs(*project.tables(split)) for split in JUDGED} | {UNLABELLED: hidden_pairs()}
    found: dict[str, dict[str, Floats]] = {}
    for name, form in forms.items():
        ranked = {split: queries.search(split, DEPTH, form)[0] for split in pairs}
        found[name] = {split: reciprocal_ranks(ranking, pairs[split], m) for split, ranking in ranked.items()}
    means = {name: {split: float(of.mean()) for split, of in by.items()} for name, by in found.items()}
    harness.print_table(
        ["RR@10 with a bank", *pairs], [[name, *map(points, by.values())] for name, by in means.items()]
    )
    gains = {split: compare(found["hidden"][split], found["none"][split]) for split in JUDGED}
    gains[UNLABELLED] = compare(found["all"][UNLABELLED], found["none"][UNLABELLED])
    measured = ", ".join(f"{split} {difference(one)}" for split, one in gains.items())
    record = {"shares": shares, "rr10": means, "gains": {split: asdict(one) for split, one in gains.items()}}
    met = all(one.low > 0 for one in gains.values())
    requirement = "a bank of hidden queries gains on dev and test, the bank of all on hidden queries asked again"
    harness.finish(options, requirement, met, f"RR@10: {measured}", record)


if __name__ == "__main__":
    with report_errors():
        main()
