"""The report: one HTML file with the tables of a run and the figures that its stages drew."""

import base64
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
import polars as pl

from gnn_encoder.base.runs import read_run
from gnn_encoder.base.tables import with_title
from gnn_encoder.evaluate import tables as told
from gnn_encoder.evaluate.claim import advice, claim_sentence, read_claim
from gnn_encoder.evaluate.informed import attention_table, cases_table
from gnn_encoder.evaluate.judge import read_values
from gnn_encoder.evaluate.measures import parse
from gnn_encoder.evaluate.slices import Sliced, slices_table
from gnn_encoder.evaluate.tables import (
    NOTHING,
    Table,
    are_ours,
    branch_tables,
    choices_table,
    count,
    is_of_prepared,
    read_choices,
    read_record,
    shortened,
    table_of,
)
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.project import MAIN, registry, title_of

SPLIT = "test"  # whose won and lost queries are shown
QUERIES = 10  # that gain most, and that lose most
LONGEST = 300  # characters that a passage is cut to


@dataclass(frozen=True, kw_only=True)
class Part:
    """The content under one heading; without tables and figures, the page names the command that makes them."""

    title: str
    command: str = "dvc repro"
    notes: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    figures: list[Path] = field(default_factory=list)


def render(params: Params, path: Path = Path("params.yaml")) -> str:
    """The whole page as HTML. The same artifacts give the same text."""
    (tested,) = parse([params.evaluate.significance])
    own = [name for name, branch in registry().branches.items() if are_ours(branch.systems)]
    statistics = read_record(project.PREPARED / "statistics.json", dict[str, Any]) or {}
    labels = read_record(project.PAIR_LABELS / "statistics.json", dict[str, Any])
    generated = read_record(project.GENERATED / "quality.json", dict[str, Any])
    sliced = {name: read_record(project.METRICS / name / "slices.json", dict[str, Sliced]) or {} for name in own}
    compared = [won_and_lost_table(branch, tested) for branch in registry().branches]
    parts = [
        results(tested, own),
        Part(title="Slices", tables=[slices_table(name, of[one], one) for name, of in sliced.items() for one in of]),
        informed(),
        Part(title="PAIR", command="dvc repro pipelines/pair/dvc.yaml", tables=_table(labels, "Pseudo-labels")),
        Part(
            title="Dual-Cross-Encoder",
            command="dvc repro pipelines/dual_cross/dvc.yaml",
            tables=_table(generated, "Generated queries compared with the dev queries"),
        ),
        Part(title="Won and lost", tables=[one for one in compared if one]),
        Part(title="Data", tables=_table(statistics, "The prepared tables")),
    ]
    passages = statistics.get("passages", {}).get("passages")
    data = f"{passages:,} passages" if passages else "not prepared: dvc repro prepare"
    facts = {"Data": f"{params.data.source}, {data}", "Base model": params.encoder.model, "Seed": str(params.seed)}
    return _template().render(facts=facts, parts=parts, params=path.read_text(encoding="utf-8"))


def results(tested: str, own: list[str]) -> Part:
    """The tables of all branches, the claim, what was chosen on dev, and the figures of `own` branches."""
    claim, choices = read_claim(), read_choices()
    tables = [table for branch in registry().branches for table in branch_tables(branch, tested)]
    figures = [project.PLOTS / branch / name for name in ("systems.png", "recall.png") for branch in own]
    return Part(
        title="Results",
        notes=[claim_sentence(claim), advice(claim)] if claim else [],
        tables=tables + ([choices_table(choices)] if choices else []),
        figures=[figure for figure in figures if figure.is_file()],
    )


def informed() -> Part:
    """What the GNN attends to, and what it answers and M_de does not."""
    found, tables = read_record(project.evaluation(MAIN) / "informed.json", dict[str, Any]), list[Table]()
    if found:
        tables = [attention_table(found["attention"]), cases_table(found["cases"], found["counts"])]
    return Part(title="What informs passages", tables=tables)


def won_and_lost_table(branch: str, measure: str) -> Table | None:
    """The test queries that a branch's main system gains and loses most against its baseline, and what both find.

    Args:
        branch: it is named after its main system.
        measure: what is won and lost.

    Returns:
        None if the branch has no main system, or one of both systems was not measured on the test queries.
    """
    systems = (registry().branches[branch].baseline, branch)
    if branch not in registry().systems or not all(map(is_of_prepared, systems)):
        return None
    values = read_values(systems).filter(split=SPLIT, measure=measure)
    if values["system"].n_unique() < len(systems):  # they are of an earlier measure
        return None
    wide = values.pivot("system", index="qid", values="value", maintain_order=True)
    wide = wide.with_columns(gain=pl.col(branch) - pl.col(systems[0]))
    gains = wide.sort("gain", descending=True, maintain_order=True)
    won, lost = gains.filter(pl.col("gain") > 0), gains.filter(pl.col("gain") < 0)
    shown = pl.concat([won.head(QUERIES), lost.tail(QUERIES)])
    texts = dict(pl.read_parquet(project.queries(SPLIT), columns=["qid", "text"]).iter_rows())
    first = [_first_passages(system, shown["qid"]) for system in systems]
    rows = [
        [texts[qid], *(of.get(qid, NOTHING) for of in first), f"{before:.2f} → {after:.2f}"]
        for qid, before, after in shown.select("qid", *systems).iter_rows()
    ]
    same = len(wide) - len(won) - len(lost)
    return Table(
        title=f"{title_of(branch)} against {title_of(systems[0])}, test queries",
        columns=["query", *(f"first by {title_of(system)}" for system in systems), measure],
        rows=rows,
        note=f"{count(len(won))} queries better, {count(len(lost))} worse, {count(same)} the same",
    )


def _first_passages(system: str, qids: pl.Series) -> dict[str, str]:
    """The passage that a system finds first for each query, cut, and whether it is relevant."""
    run = read_run(project.run_file(system, SPLIT)).filter(pl.col("qid").is_in(qids.implode()), rank=1)
    found = pl.scan_parquet(project.PASSAGES).join(run.lazy(), on="pid").collect(engine="streaming")
    judged = pl.read_parquet(project.qrels(SPLIT)).filter(pl.col("grade") > 0)
    relevant = set(judged.select("qid", "pid").rows())
    return {
        qid: f"{'relevant: ' if (qid, pid) in relevant else ''}{shortened(with_title(title, text), LONGEST)}"
        for qid, pid, title, text in found.select("qid", "pid", "title", "text").iter_rows()
    }


def _table(value: Any, title: str) -> list[Table]:
    """The table of a JSON object, if there is one."""
    return [table_of(value, title)] if value else []


def _template() -> jinja2.Template:
    """The page's template. It escapes all text, since passages and queries may hold HTML."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("gnn_encoder.evaluate"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"embedded": _embedded}
    environment.globals["marks"] = {told.BETTER: "better", told.WORSE: "worse"}
    return environment.get_template("report.html")


def _embedded(picture: Path) -> str:
    return f"data:image/png;base64,{base64.b64encode(picture.read_bytes()).decode()}"
