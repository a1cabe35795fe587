"""evidence: ablations, sweeps, attention, times and cases (Tables 3 to 5 and Figures 2 to 4 of GNN-encoder's paper)."""

from dataclasses import asdict

from gnn_encoder.core.storage.atomic import write_json, write_text
from gnn_encoder.evaluation.measures import parse
from gnn_encoder.evaluation.values import by_split
from gnn_encoder.evidence.attention_by_kind import compare_attention, examples, neighbours, shares
from gnn_encoder.evidence.encoding_times import timed
from gnn_encoder.evidence.params import ABLATIONS, MODELS, TABLES
from gnn_encoder.evidence.rank_one import describe_cases
from gnn_encoder.evidence.summary import baselines, read_trials, summarise
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.presenting import paper_evidence as shown
from gnn_encoder.presenting.figures import write_png
from gnn_encoder.presenting.tables import Table, log_tables, table_of, titled

DRAWN = 3  # passages in the figure of attention


def trials(kind: str, stage: Stage) -> list[Table]:
    """Table 3 (`ablations`), Figure 3 (`k`) or Figure 4 (`beta`)."""
    params, values = stage.params, read_trials(kind, stage.params)
    values.write_parquet(stage.scratch / f"{kind}.parquet")
    (tested,) = parse([params.evaluate.significance], "evaluate.significance")
    how = {"tested": tested, "baselines": baselines(kind, params), "resamples": params.evidence.resamples}
    found = {split: summarise(rows, **how, seed=params.seed) for split, rows in by_split(values).items()}
    write_json(stage.metrics / f"{kind}.json", {split: asdict(summary) for split, summary in found.items()})
    if kind != ABLATIONS:
        write_png(stage.plots / f"{kind}.png", shown.sweep_panels(found, kind))
    return list(shown.summary_tables(found, kind, tested))


def main(stage: Stage) -> None:
    """Collect the evidence, and write its tables and figures in the order of the paper's."""
    stage.plots.mkdir(parents=True, exist_ok=True)
    tables = [table for kind in TABLES for table in trials(kind, stage)]
    attention = compare_attention(stage.params, stage.work / "scores")
    attention.write_parquet(stage.scratch / "attention.parquet")
    panels = shown.attention_panels(drawn := examples(attention, DRAWN), [neighbours(rows["query"]) for rows in drawn])
    write_png(stage.plots / "attention.png", panels, columns=len(MODELS) if drawn else 1, shared=True)
    counts, cases = describe_cases(stage.params)
    write_json(stage.scratch / "cases.json", cases)
    found = {"attention": shares(attention), "times": timed(stage.params, stage.work), "cases": counts}
    for name, value in found.items():
        write_json(stage.metrics / f"{name}.json", value)
    tables += [shown.attention_table(found["attention"]), shown.times_table(found["times"])]
    tables += [table_of(counts, shown.TITLES["cases"]), shown.cases_table(cases)]
    log_tables(tables)
    write_text(stage.scratch / "tables.md", "\n\n".join(map(titled, tables)) + "\n")


if __name__ == "__main__":
    run(main)
