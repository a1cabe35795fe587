"""evidence: ablations, sweeps, attention, times and cases (the paper's Tables 3 to 5 and Figures 2 to 4)."""

import json
import logging
from pathlib import Path

import polars as pl

from gnn_encoder.core import distributed, project
from gnn_encoder.core.params import Params, load_params
from gnn_encoder.core.stage import WORK, output, run
from gnn_encoder.core.storage.atomic import publish_files, write_json, write_text
from gnn_encoder.evaluation.measures import parse
from gnn_encoder.evidence import pictures, tables
from gnn_encoder.evidence.attention import examples, labels, shares
from gnn_encoder.evidence.collect import (
    COMPARED,
    baselines,
    compare_attention,
    describe_cases,
    read_trials,
    texts_of,
)
from gnn_encoder.evidence.summary import Summary, as_json, as_table, summarise
from gnn_encoder.evidence.trials import ABLATIONS, BETA, KINDS, K

log = logging.getLogger(__name__)
LABELS = {ABLATIONS: "system", K: "passages a question", BETA: "beta"}
DRAWN = 3  # passages


def main() -> None:
    """Collect, compare, write tables and pictures."""
    params = load_params()
    trials = [trial.folder for kind in KINDS.values() for trial in kind(params)]
    system = project.gnn_system("gnn_encoder", params)
    judged = [*map(project.queries, ("train", "dev")), *map(project.qrels, ("train", "dev"))]
    runs = [project.run_file(name, "dev") for name in COMPARED]
    inputs = [*trials, project.ENCODING_TIMES, project.PASSAGES, *judged, system.nodes, project.CROSS_ENCODER, *runs]
    sections = {
        "evidence": params.evidence,
        "significance": params.evaluate.significance,
        "answers": params.evaluate.answers,
        "own": [params.build_graph.k, params.mgt.beta, params.seed],
        "cross_encoder": params.train_cross_encoder.max_length,
        "precision": params.encoder.precision,
    }
    with output(project.EVIDENCE, inputs, sections) as scratch:
        if distributed.is_first():
            metrics, plots = scratch / WORK / "metrics", scratch / WORK / "plots"
            told = [compare_trials(kind, params, scratch, metrics, plots) for kind in KINDS]
            told += [show_attention(params, scratch, metrics, plots), show_times(metrics, plots)]
            told += [show_cases(params, scratch, metrics)]
            text = "\n\n".join(told) + "\n"
            log.info("\n%s", text)
            write_text(scratch / "tables.md", text)
            publish_files(metrics, project.METRICS / "evidence")
            publish_files(plots, project.PLOTS / "evidence")


def compare_trials(kind: str, params: Params, scratch: Path, metrics: Path, plots: Path) -> str:
    """Table 3, Figure 3 or Figure 4."""
    values = read_trials(kind, params)
    values.write_parquet(scratch / f"{kind}.parquet")
    (tested,) = parse([params.evaluate.significance], "evaluate.significance")
    evidence, compared = params.evidence, baselines(kind, params)
    found: dict[str, Summary] = {
        str(split): summarise(rows, tested=tested, baselines=compared, resamples=evidence.resamples, seed=params.seed)
        for (split,), rows in values.group_by("split", maintain_order=True)
    }
    write_json(metrics / f"{kind}.json", as_json(found))
    plots.mkdir(parents=True, exist_ok=True)
    as_table(found).write_csv(plots / f"{kind}.csv")
    if kind == ABLATIONS:
        pictures.draw_ablations(plots / f"{kind}.png", found, tested, compared[0])
    else:
        pictures.draw_sweep(plots / f"{kind}.png", found, LABELS[kind], logarithmic=kind == BETA)
    return "\n\n".join(
        f"{split} questions, points of 100\n\n{tables.summary_table(summary, tested, LABELS[kind])}"
        for split, summary in found.items()
    )


def show_attention(params: Params, scratch: Path, metrics: Path, plots: Path) -> str:
    """Figure 2."""
    table = compare_attention(params, scratch / WORK / "scores")
    table.write_parquet(scratch / "attention.parquet")
    drawn = examples(table, DRAWN)
    named = [labels(rows, texts_of(rows["query"], params)) for rows in drawn]
    pictures.draw_attention(plots / "attention.png", drawn, named)
    told = [rows.with_columns(question=pl.Series(names)) for rows, names in zip(drawn, named, strict=True)]
    pl.concat(told or [table.clear().with_columns(question=pl.lit(""))]).write_csv(plots / "attention.csv")
    found = shares(table)
    pictures.draw_shares(plots / "attention_shares.png", found)
    write_json(metrics / "attention.json", found)
    return tables.shares_table(found)


def show_times(metrics: Path, plots: Path) -> str:
    """Table 4."""
    times = json.loads((project.ENCODING_TIMES / "times.json").read_text(encoding="utf-8"))
    write_json(metrics / "times.json", times)
    pl.DataFrame([{"system": s, **row} for s, row in times["systems"].items()]).write_csv(plots / "times.csv")
    return tables.times_table(times)


def show_cases(params: Params, scratch: Path, metrics: Path) -> str:
    """Table 5."""
    found, cases = describe_cases(params)
    counts = {"questions": found.questions, "won_at_rank_1": len(found.won), "lost_at_rank_1": found.lost}
    write_json(scratch / "cases.json", cases)
    write_json(metrics / "cases.json", counts)
    told = "; ".join(f"{name.replace('_', ' ')}: {value}" for name, value in counts.items())
    return f"{tables.cases_table(cases)}\n\n{told}"


if __name__ == "__main__":
    run(main)
