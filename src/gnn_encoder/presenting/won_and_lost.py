"""The queries that a branch's main system wins and loses most against its baseline, with the first passage of both."""

import polars as pl

from gnn_encoder.base.runs import read_run
from gnn_encoder.base.tables import with_title
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.project import registry, title_of
from gnn_encoder.presenting.formats import NOTHING, count, shortened
from gnn_encoder.presenting.stored import is_of_prepared
from gnn_encoder.presenting.tables import Table

SPLIT = "test"
QUERIES = 10  # that gain most, and that lose most
LONGEST = 300  # characters that a passage is cut to


def won_and_lost_table(branch: str, measure: str) -> Table | None:
    """One row per query, those that gain most first, those that lose most last, with what both systems find first.

    Args:
        branch: it is named after its main system.
        measure: what is won and lost.

    Returns:
        None if the branch has no main system, or one of both systems was not measured on the test queries.
    """
    systems = (registry().branches[branch].baseline, branch)
    if branch not in registry().systems or not all(map(_is_there, systems)):
        return None
    files = [project.measured(name) / project.VALUES for name in systems]
    values = pl.scan_parquet(files).filter(split=SPLIT, measure=measure).collect()
    if values["system"].n_unique() < len(systems):  # they are of an earlier measure
        return None
    wide = values.pivot("system", index="qid", values="value", maintain_order=True).drop_nulls()
    wide = wide.with_columns(gain=pl.col(branch) - pl.col(systems[0]))
    gains = wide.sort("gain", descending=True, maintain_order=True)
    won, lost = gains.filter(pl.col("gain") > 0), gains.filter(pl.col("gain") < 0)
    shown = pl.concat([won.head(QUERIES), lost.tail(QUERIES)])
    texts = dict(pl.read_parquet(project.queries(SPLIT), columns=["qid", "text"]).iter_rows())
    first = [_first_passages(system, shown["qid"]) for system in systems]
    rows = [
        [
            texts[qid],
            *(of.get(qid, NOTHING) for of in first),
            f"{before:.2f} → {after:.2f}",
        ]
        for qid, before, after in shown.select("qid", *systems).iter_rows()
    ]
    same = len(wide) - len(won) - len(lost)
    return Table(
        title=f"{title_of(branch)} against {title_of(systems[0])}, test queries",
        columns=["query", *(f"first by {title_of(system)}" for system in systems), measure],
        rows=rows,
        note=f"{count(len(won))} queries better, {count(len(lost))} worse, {count(same)} the same",
    )


def _is_there(system: str) -> bool:
    """Whether a system has a run and values of these queries; those of earlier data have not."""
    return is_of_prepared(system) and project.run_file(system, SPLIT).is_file()


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
