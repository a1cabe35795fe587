"""The queries that a branch's main system wins and loses most against its baseline, with both systems' passages."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from gnn_encoder.core.records import QRELS, QUERIES, open_table
from gnn_encoder.core.runs import read_run
from gnn_encoder.evaluation.judge import DOCUMENT
from gnn_encoder.evaluation.params import Evaluate
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.systems import registry
from gnn_encoder.presenting.params import Report
from gnn_encoder.presenting.stored import is_of_prepared

SPLIT = "test"
LONGEST = 400  # characters that a passage is cut to


@dataclass(frozen=True, kw_only=True)
class Passage:
    """A passage that a system found, with its title and text cut."""

    pid: str
    text: str
    relevant: bool


@dataclass(frozen=True, kw_only=True)
class Query:
    """A query with the measure's value and the first passages of the baseline and of the main system."""

    text: str
    values: list[float]
    passages: list[list[Passage]]


@dataclass(frozen=True, kw_only=True)
class WonAndLost:
    """The main system against its branch's baseline: queries that gained and lost most, and numbers of queries."""

    baseline: str
    system: str
    won: list[Query]
    lost: list[Query]
    better: int
    worse: int
    same: int


def won_and_lost(branch: str, measure: str, section: Evaluate, shown: Report) -> WonAndLost | None:
    """Of the test queries. None if one of both systems was not measured on them, or the branch has no main system."""
    systems = (registry().branches[branch].baseline, branch)  # a branch is named after its main system
    if branch not in registry().systems or not all(_is_there(name, measure) for name in systems):
        return None
    files = [project.measured(name) / project.VALUES for name in systems]
    values = pl.scan_parquet(files).filter(split=SPLIT, measure=measure).collect()
    wide = values.pivot("system", index="qid", values="value", maintain_order=True).drop_nulls()
    gain = pl.col(branch) - pl.col(systems[0])
    gains = wide.with_columns(gain=gain).sort("gain", descending=True, maintain_order=True)
    won, lost = gains.filter(pl.col("gain") > 0), gains.filter(pl.col("gain") < 0).reverse()
    shown_won, shown_lost = (_queries(of.head(shown.queries), systems, section, shown.passages) for of in (won, lost))
    counts = {"better": len(won), "worse": len(lost), "same": len(wide) - len(won) - len(lost)}
    return WonAndLost(baseline=systems[0], system=branch, won=shown_won, lost=shown_lost, **counts)


def _is_there(system: str, measure: str) -> bool:
    """Whether a system has its run of these queries, and values of the measure; those of earlier data have not."""
    values = project.measured(system) / project.VALUES
    if not is_of_prepared(system) or not project.run_file(system, SPLIT).is_file():
        return False
    return not pl.scan_parquet(values).filter(measure=measure, split=SPLIT).head(1).collect().is_empty()


def _queries(chosen: pl.DataFrame, systems: Sequence[str], section: Evaluate, top: int) -> list[Query]:
    """The queries of the rows of `chosen`, columns qid and each of `systems`, with texts and `top` passages."""
    asked = pl.DataFrame(open_table(project.queries(SPLIT), QUERIES).read(columns=["qid", "text"]))
    names = dict(asked.filter(pl.col("qid").is_in(chosen["qid"].implode())).rows())
    runs = [_first(system, chosen["qid"], top) for system in systems]
    every = pl.concat(runs)
    texts, relevant = _texts(every["pid"].unique()), _relevant(every, section.by)
    found = []
    for row in chosen.iter_rows(named=True):
        qid = row["qid"]
        passages = [
            [Passage(pid=pid, text=texts[pid], relevant=(qid, pid) in relevant) for pid in run.filter(qid=qid)["pid"]]
            for run in runs
        ]
        found.append(Query(text=names[qid], values=[row[system] for system in systems], passages=passages))
    return found


def _first(system: str, qids: pl.Series, top: int) -> pl.DataFrame:
    """The best `top` passages of the queries: columns qid, pid, best first."""
    run = read_run(project.run_file(system, SPLIT))
    return run.filter(pl.col("qid").is_in(qids.implode()) & (pl.col("rank") <= top)).sort("rank").select("qid", "pid")


def _texts(pids: pl.Series) -> dict[str, str]:
    """The titles and texts of passages, cut."""
    rows = pl.scan_parquet(project.PASSAGES).filter(pl.col("pid").is_in(pids.implode())).collect(engine="streaming")
    texts = ((pid, f"{title} {text}".strip()) for pid, title, text in rows.select("pid", "title", "text").rows())
    return {pid: text if len(text) <= LONGEST else f"{text[: LONGEST - 1].rstrip()}…" for pid, text in texts}


def _relevant(shown: pl.DataFrame, by: str) -> set[tuple[str, str]]:
    """The pairs of `shown` (columns qid, pid) that are judged relevant, or are of documents that are."""
    judged = pl.DataFrame(open_table(project.qrels(SPLIT), QRELS).read()).filter(pl.col("grade") > 0)
    key = DOCUMENT if by == "document" else pl.col("pid")
    right = judged.select("qid", key=key).unique()
    return set(shown.with_columns(key=key).join(right, on=["qid", "key"], how="semi").select("qid", "pid").rows())
