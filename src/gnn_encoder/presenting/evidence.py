"""Output of the stage `evidence`: the numbers, the figure and the table of each kind of evidence."""

import json
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.evaluation.measures import parse
from gnn_encoder.evidence.attention import MODELS, examples, labels, shares
from gnn_encoder.evidence.collect import baselines, compare_attention, describe_cases, read_trials, texts_of
from gnn_encoder.evidence.summary import Summary, as_json, as_table, summarise
from gnn_encoder.evidence.trials import ABLATIONS, TABLES
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.stage import Stage
from gnn_encoder.presenting.attention import attention_panel, nothing_panel, shares_panel, shares_table
from gnn_encoder.presenting.blocks import blocks
from gnn_encoder.presenting.cases import cases_table
from gnn_encoder.presenting.figure import write_png
from gnn_encoder.presenting.names import TITLES
from gnn_encoder.presenting.tables import Table
from gnn_encoder.presenting.times import times_table
from gnn_encoder.presenting.trials import LABELS, ablation_panels, summary_tables, sweep_panels

DRAWN = 3  # passages in the figure of attention


def present_evidence(stage: Stage) -> list[Table]:
    """Write all kinds of evidence, and return their tables in the order of the paper's tables and figures."""
    stage.plots.mkdir(parents=True, exist_ok=True)
    trials = [table for kind in TABLES for table in present_trials(kind, stage)]
    return [*trials, present_attention(stage), present_times(stage), *present_cases(stage)]


def present_trials(kind: str, stage: Stage) -> list[Table]:
    """Table 3 (`ablations`), Figure 3 (`k`) or Figure 4 (`beta`)."""
    params = stage.params
    values = read_trials(kind, params)
    values.write_parquet(stage.scratch / f"{kind}.parquet")
    (tested,) = parse([params.evaluate.significance], "evaluate.significance")
    evidence, compared = params.evidence, baselines(kind, params)
    found: dict[str, Summary] = {
        str(split): summarise(rows, tested=tested, baselines=compared, resamples=evidence.resamples, seed=params.seed)
        for (split,), rows in values.group_by("split", maintain_order=True)
    }
    write_json(stage.metrics / f"{kind}.json", as_json(found))
    as_table(found).write_csv(stage.plots / f"{kind}.csv")
    if kind == ABLATIONS:
        write_png(stage.plots / f"{kind}.png", ablation_panels(found, tested, compared[0]), columns=2, shared=True)
    else:
        write_png(stage.plots / f"{kind}.png", sweep_panels(found, kind))
    return list(summary_tables(found, TITLES[kind], LABELS[kind], tested))


def present_attention(stage: Stage) -> Table:
    """Figure 2: attention."""
    table = compare_attention(stage.params, stage.work / "scores")
    table.write_parquet(stage.scratch / "attention.parquet")
    drawn = examples(table, DRAWN)
    named = [labels(rows, texts_of(rows["query"])) for rows in drawn]
    draw_attention(stage.plots / "attention.png", drawn, named)
    told = [rows.with_columns(text=pl.Series(names)) for rows, names in zip(drawn, named, strict=True)]
    csv = pl.concat(told or [table.clear().with_columns(text=pl.lit(""))])
    csv.write_csv(stage.plots / "attention.csv")
    found = shares(table)
    write_png(stage.plots / "attention_shares.png", [shares_panel(found)])
    write_json(stage.metrics / "attention.json", found)
    return shares_table(found)


def present_times(stage: Stage) -> Table:
    """Table 4: encoding times."""
    times = json.loads((project.ENCODING_TIMES / "times.json").read_text(encoding="utf-8"))
    write_json(stage.metrics / "times.json", times)
    rows = [{"system": system, **row} for system, row in times["systems"].items()]
    pl.DataFrame(rows).write_csv(stage.plots / "times.csv")
    return times_table(times)


def present_cases(stage: Stage) -> list[Table]:
    """Table 5: cases, and a table of how many there are."""
    found, cases = describe_cases(stage.params)
    counts = {"queries": found.queries, "won_at_rank_1": len(found.won), "lost_at_rank_1": found.lost}
    write_json(stage.scratch / "cases.json", cases)
    write_json(stage.metrics / "cases.json", counts)
    return [*blocks(counts, TITLES["cases"]), cases_table(cases)]


def draw_attention(path: Path, passages: Sequence[pl.DataFrame], names: Sequence[Sequence[str]]) -> None:
    """Write a figure with one row per passage, without MGT on the left and with it on the right.

    If there are no passages, the figure says so.
    """
    panels = [
        attention_panel(passage, of, model) for passage, of in zip(passages, names, strict=True) for model in MODELS
    ]
    write_png(path, panels or [nothing_panel()], columns=len(MODELS) if panels else 1, shared=True)
