"""evidence: ablations, sweeps, attention, times and cases (Tables 3 to 5 and Figures 2 to 4 of GNN-encoder's paper)."""

import os
from dataclasses import asdict

import torch

from gnn_encoder.core.storage.atomic import write_json, write_text
from gnn_encoder.core.storage.tables import count_rows
from gnn_encoder.evaluation.costs import QUERIES
from gnn_encoder.evaluation.measures import parse
from gnn_encoder.evidence.attention_by_kind import compare_attention, examples, neighbours, shares
from gnn_encoder.evidence.encoding_times import GRAPH, encoding_milliseconds
from gnn_encoder.evidence.params import ABLATIONS, MODELS, TABLES
from gnn_encoder.evidence.rank_one import describe_cases
from gnn_encoder.evidence.summary import baselines, read_trials, summarise
from gnn_encoder.models.device import processor, working_dtype
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.costs import costs_of
from gnn_encoder.pipeline.stage import Stage, run
from gnn_encoder.presenting.figures import write_png
from gnn_encoder.presenting.paper_evidence import (
    TITLES,
    attention_panels,
    attention_table,
    cases_table,
    summary_tables,
    sweep_panels,
    times_table,
)
from gnn_encoder.presenting.tables import Table, log_tables, table_of, titled

DRAWN = 3  # passages in the figure of attention


def trials(kind: str, stage: Stage) -> list[Table]:
    """Table 3 (`ablations`), Figure 3 (`k`) or Figure 4 (`beta`)."""
    params, values = stage.params, read_trials(kind, stage.params)
    values.write_parquet(stage.scratch / f"{kind}.parquet")
    (tested,) = parse([params.evaluate.significance], "evaluate.significance")
    compared, resamples = baselines(kind, params), params.evidence.resamples
    found = {
        str(split): summarise(rows, tested=tested, baselines=compared, resamples=resamples, seed=params.seed)
        for (split,), rows in values.group_by("split", maintain_order=True)
    }
    write_json(stage.metrics / f"{kind}.json", {split: asdict(summary) for split, summary in found.items()})
    if kind != ABLATIONS:
        write_png(stage.plots / f"{kind}.png", sweep_panels(found, kind))
    return list(summary_tables(found, kind, tested))


def attention(stage: Stage) -> Table:
    """Figure 2: attention."""
    table = compare_attention(stage.params, stage.work / "scores")
    table.write_parquet(stage.scratch / "attention.parquet")
    drawn = examples(table, DRAWN)
    panels = attention_panels(drawn, [neighbours(rows) for rows in drawn])
    write_png(stage.plots / "attention.png", panels, columns=len(MODELS) if drawn else 1, shared=True)
    found = shares(table)
    write_json(stage.metrics / "attention.json", found)
    return attention_table(found)


def times(stage: Stage) -> Table:
    """Table 4: ms per passage and ms per query, of M_de and of GNN-encoder, and what the times depend on."""
    params = stage.params
    systems = {
        system: {"ms_a_passage": passage, "ms_a_question": costs_of(system, params).latency_ms}
        for system, passage in encoding_milliseconds(params, stage.work).items()
    }
    machine = {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "threads": torch.get_num_threads(),
        "precision": "bf16" if working_dtype(params.encoder.precision) is torch.bfloat16 else "fp32",
        "passage_batch_tokens": params.encoder.batch_tokens,
        "passage_length": params.encoder.passage_length,
        "query_batch": 1,
        "passages": count_rows(project.PASSAGES),
        "queries_in_graph": count_rows(GRAPH.queries),
        "queries_timed": QUERIES,
    }
    found = {"systems": systems, "machine": machine}
    write_json(stage.metrics / "times.json", found)
    return times_table(found)


def cases(stage: Stage) -> list[Table]:
    """Table 5: cases, and a table of how many there are."""
    found, described = describe_cases(stage.params)
    counts = {"queries": found.queries, "won_at_rank_1": len(found.won), "lost_at_rank_1": found.lost}
    write_json(stage.scratch / "cases.json", described)
    write_json(stage.metrics / "cases.json", counts)
    return [table_of(counts, TITLES["cases"]), cases_table(described)]


def main(stage: Stage) -> None:
    """Collect the evidence, and write its tables and figures in the order of the paper's."""
    stage.plots.mkdir(parents=True, exist_ok=True)
    tables = [table for kind in TABLES for table in trials(kind, stage)]
    tables += [attention(stage), times(stage), *cases(stage)]
    log_tables(tables)
    write_text(stage.scratch / "tables.md", "\n\n".join(map(titled, tables)) + "\n")


if __name__ == "__main__":
    run(main)
