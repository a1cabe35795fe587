"""What the stage `evidence` writes: for each kind of evidence its numbers, its figure, and its table."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from gnn_encoder.core import project
from gnn_encoder.core.params import Params
from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.evaluation.measures import parse
from gnn_encoder.evidence.attention import MODELS, examples, labels, shares
from gnn_encoder.evidence.collect import baselines, compare_attention, describe_cases, read_trials, texts_of
from gnn_encoder.evidence.summary import Summary, as_json, as_table, summarise
from gnn_encoder.evidence.trials import ABLATIONS, KINDS
from gnn_encoder.presenting.attention import paint_attention, paint_shares, shares_table
from gnn_encoder.presenting.blocks import blocks
from gnn_encoder.presenting.cases import cases_table
from gnn_encoder.presenting.figure import panels
from gnn_encoder.presenting.tables import Table
from gnn_encoder.presenting.times import times_table
from gnn_encoder.presenting.titles import TITLES
from gnn_encoder.presenting.trials import LABELS, paint_differences, paint_means, paint_sweep, summary_tables

DRAWN = 3  # passages


@dataclass(frozen=True, kw_only=True)
class Folders:
    """Where the evidence goes.

    Attributes:
        tables: single values, as Parquet.
        metrics: numbers, as JSON.
        plots: figures, and what they show as CSV.
        work: what only resuming needs.
    """

    tables: Path
    metrics: Path
    plots: Path
    work: Path


def present_evidence(params: Params, folders: Folders) -> list[Table]:
    """Write all kinds of evidence; their tables in the order of the paper's."""
    folders.plots.mkdir(parents=True, exist_ok=True)
    trials = [table for kind in KINDS for table in present_trials(kind, params, folders)]
    return [*trials, present_attention(params, folders), present_times(folders), *present_cases(params, folders)]


def present_trials(kind: str, params: Params, folders: Folders) -> list[Table]:
    """Table 3, Figure 3 or Figure 4."""
    values = read_trials(kind, params)
    values.write_parquet(folders.tables / f"{kind}.parquet")
    (tested,) = parse([params.evaluate.significance], "evaluate.significance")
    evidence, compared = params.evidence, baselines(kind, params)
    found: dict[str, Summary] = {
        str(split): summarise(rows, tested=tested, baselines=compared, resamples=evidence.resamples, seed=params.seed)
        for (split,), rows in values.group_by("split", maintain_order=True)
    }
    write_json(folders.metrics / f"{kind}.json", as_json(found))
    as_table(found).write_csv(folders.plots / f"{kind}.csv")
    picture = folders.plots / f"{kind}.png"
    if kind == ABLATIONS:
        draw_ablations(picture, found, tested, compared[0])
    else:
        draw_sweep(picture, found, kind)
    return list(summary_tables(found, TITLES[kind], LABELS[kind], tested))


def present_attention(params: Params, folders: Folders) -> Table:
    """Figure 2."""
    table = compare_attention(params, folders.work / "scores")
    table.write_parquet(folders.tables / "attention.parquet")
    drawn = examples(table, DRAWN)
    named = [labels(rows, texts_of(rows["query"], params)) for rows in drawn]
    draw_attention(folders.plots / "attention.png", drawn, named)
    told = [rows.with_columns(question=pl.Series(names)) for rows, names in zip(drawn, named, strict=True)]
    csv = pl.concat(told or [table.clear().with_columns(question=pl.lit(""))])
    csv.write_csv(folders.plots / "attention.csv")
    found = shares(table)
    with panels(folders.plots / "attention_shares.png", 1) as (axes,):
        paint_shares(axes, found)
    write_json(folders.metrics / "attention.json", found)
    return shares_table(found)


def present_times(folders: Folders) -> Table:
    """Table 4."""
    times = json.loads((project.ENCODING_TIMES / "times.json").read_text(encoding="utf-8"))
    write_json(folders.metrics / "times.json", times)
    rows = [{"system": system, **row} for system, row in times["systems"].items()]
    pl.DataFrame(rows).write_csv(folders.plots / "times.csv")
    return times_table(times)


def present_cases(params: Params, folders: Folders) -> list[Table]:
    """Table 5, and how many cases there are."""
    found, cases = describe_cases(params)
    counts = {"questions": found.questions, "won_at_rank_1": len(found.won), "lost_at_rank_1": found.lost}
    write_json(folders.tables / "cases.json", cases)
    write_json(folders.metrics / "cases.json", counts)
    return [*blocks(counts, TITLES["cases"]), cases_table(cases)]


def draw_ablations(path: Path, found: dict[str, Summary], tested: str, baseline: str) -> None:
    """A row a split: the systems' means, and their differences from `baseline`."""
    systems = max(len(summary.means[tested]) for summary in found.values())
    with panels(path, 2 * len(found), columns=2, size=(6.0, 1 + 0.4 * systems), shared=True) as every:
        for number, (split, summary) in enumerate(found.items()):
            means, differences = every[2 * number : 2 * number + 2]
            paint_means(means, summary.means[tested], f"{tested}, {split} (points)")
            label = f"{tested} minus that of {baseline}, {split} (points)"
            paint_differences(differences, list(summary.means[tested]), summary.against[baseline], label)


def draw_sweep(path: Path, found: dict[str, Summary], kind: str) -> None:
    """A panel a measure."""
    measures = list(next(iter(found.values())).means)
    with panels(path, len(measures), size=(4.2, 4.0)) as every:
        for axes, measure in zip(every, measures, strict=True):
            paint_sweep(axes, {split: summary.means[measure] for split, summary in found.items()}, kind, measure)


def draw_attention(path: Path, passages: Sequence[pl.DataFrame], names: Sequence[Sequence[str]]) -> None:
    """A row a passage, without MGT on the left and with it on the right."""
    height = max([2.4, *(0.3 * len(of) + 0.9 for of in names)])
    with panels(path, 2 * max(1, len(passages)), columns=2, size=(6.0, height), shared=True) as every:
        for number, (passage, of) in enumerate(zip(passages, names, strict=True)):
            for axes, model in zip(every[2 * number :], MODELS, strict=False):
                paint_attention(axes, passage, of, model)
        if not passages:
            for axes in every:
                axes.text(0.5, 0.5, "no passage has labelled and potentially relevant questions", ha="center")
