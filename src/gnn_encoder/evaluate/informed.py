"""What the GNN attends to, by kind of neighbour (Figure 2), and queries that it answers and M_de does not (Table 5)."""

from typing import Any

import polars as pl

from gnn_encoder.base.judgements import with_rows
from gnn_encoder.base.runs import read_run
from gnn_encoder.base.tables import read_column, with_title
from gnn_encoder.evaluate.judge import Judgements, read_values
from gnn_encoder.evaluate.significance import interval
from gnn_encoder.evaluate.tables import NOTHING, Table, is_of_prepared, shortened
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Evaluate
from gnn_encoder.pipeline.project import MAIN, REFERENCE, registry, title_of

CASES = 10  # queries that are shown: of Table 5, and of those that gain most and that lose most
QUERIES = 5  # of a case, those with the most attention
KINDS = {"labelled": "a labelled query", "other": "another query", "itself": "the passage itself"}
LONGEST = 300  # characters that a passage is cut to


def attention_shares(attention: pl.DataFrame, pairs: pl.DataFrame) -> dict[str, dict[str, float]]:
    """Kind of neighbour -> mean attention to one of them, its 95% interval, and the number of passages.

    A passage's value is its mean attention over its neighbours of the kind. Passages count that both a labelled query
    and another one retrieved: elsewhere there is nothing to choose. `attention` is an `ATTENTION` table (query -1: the
    passage itself), and `pairs` has the columns query and passage of the labels.
    """
    rows = attention.join(pairs.with_columns(kind=pl.lit("labelled")), on=["query", "passage"], how="left")
    other = pl.when(pl.col("query") < 0).then(pl.lit("itself")).otherwise(pl.lit("other"))
    rows = rows.with_columns(kind=pl.coalesce("kind", other)).sort("passage", "query")
    rows = rows.filter(pl.col("kind").n_unique().over("passage") == len(KINDS))
    found = {}
    for kind in KINDS if len(rows) else ():
        of_kind = rows.filter(kind=kind).group_by("passage", maintain_order=True).agg(pl.col("attention").mean())
        values = of_kind["attention"].cast(pl.Float64).to_numpy()
        low, high = interval(values)
        found[kind] = {"mean": float(values.mean()), "low": low, "high": high, "passages": len(values)}
    return found


def attention_table(shares: dict[str, dict[str, float]]) -> Table:
    """One row per kind of neighbour."""
    rows = [[KINDS[kind], f"{of['mean']:.3f}", f"{of['low']:.3f} to {of['high']:.3f}"] for kind, of in shares.items()]
    number = next((int(of["passages"]) for of in shares.values()), 0)
    note = f"{number:,} passages that both a labelled query and another one retrieved"
    columns = ["Attention to", "mean", "95% interval"]
    return Table(title="Attention to one neighbour of a passage", columns=columns, rows=rows, note=note)


def compare_at_rank_one(section: Evaluate) -> tuple[pl.DataFrame, dict[str, int]]:
    """Dev queries that GNN-encoder answers at rank 1 and M_de does not, those that M_de ranks lowest first.

    Columns qid, pid (the relevant passage at rank 1), rank (M_de's of it; null: not found), query, passage (rows); and
    how many such queries there are, and how many of the opposite.
    """
    ours, theirs = (read_run(project.run_file(system, "dev")) for system in (MAIN, REFERENCE))
    judgements = Judgements.of("dev", section)
    judged = judgements.measure(ours, ["P@1"]).join(judgements.measure(theirs, ["P@1"]), on="qid", suffix="_there")
    won, lost = (judged.filter(value=mine, value_there=1 - mine).select("qid") for mine in (1, 0))
    found = won.join(ours.filter(rank=1).select("qid", "pid"), on="qid")
    found = found.join(theirs.select("qid", "pid", "rank"), on=["qid", "pid"], how="left")
    found = found.sort(pl.col("rank"), "qid", descending=[True, False], nulls_last=False)
    counts = {"queries": len(judged), "won": len(won), "lost": len(lost)}
    return with_rows(found.head(CASES), project.queries("dev"), project.PASSAGES), counts


def describe_cases(
    won: pl.DataFrame, attention: pl.DataFrame, pairs: pl.DataFrame, nodes: pl.Series
) -> list[dict[str, Any]]:
    """The cases of `compare_at_rank_one` with their texts and what informed the passage; `nodes`: the graph's texts."""
    texts, read, cases = read_column(project.queries("dev"), "text"), passage_texts(won["pid"]), []
    for case in won.iter_rows(named=True):
        rows = attention.filter(pl.col("query") >= 0, passage=case["passage"]).sort("attention", descending=True)
        top = rows.head(QUERIES).join(pairs.with_columns(labelled=True), on=["query", "passage"], how="left")
        heard = zip(nodes.gather(top["query"]), top["attention"], top["labelled"].fill_null(False), strict=True)
        cases.append(
            {
                "query": texts[case["query"]].as_py(),
                "passage": read[case["pid"]],
                "rank_of_dual_encoder": case["rank"],
                "informed_by": [{"query": text, "attention": share, "labelled": own} for text, share, own in heard],
            }
        )
    return cases


def cases_table(cases: list[dict[str, Any]], counts: dict[str, int]) -> Table:
    """One row per case; its second cell names the queries that informed the passage."""
    rows = []
    for case in cases:
        told = [shortened(case["passage"], LONGEST)]
        told += [
            f"{one['attention']:.2f}{'*' if one['labelled'] else ''} {one['query']}" for one in case["informed_by"]
        ]
        rank = NOTHING if case["rank_of_dual_encoder"] is None else str(case["rank_of_dual_encoder"])
        rows.append([case["query"], "\n".join(told), rank])
    ours, theirs = title_of(MAIN), title_of(REFERENCE)
    note = (
        f"Of {counts['queries']:,} dev queries {ours} alone answers {counts['won']:,} at rank 1, {theirs} "
        f"alone {counts['lost']:,}. Below a passage: queries that informed it, with their attention; * labelled"
    )
    columns = ["query", "passage", f"rank by {theirs}"]
    return Table(title=f"Answered at rank 1 by {ours} and not by {theirs}", columns=columns, rows=rows, note=note)


def won_and_lost_table(branch: str, measure: str) -> Table | None:
    """The test queries that a branch's main system, if measured, gains and loses most against its baseline."""
    systems = baseline, _ = registry().branches[branch].baseline, branch
    if branch not in registry().systems or not all(map(is_of_prepared, systems)):
        return None
    values = read_values(systems).filter(split="test", measure=measure)
    if values["system"].n_unique() < len(systems):  # they are of an earlier measure
        return None
    gains = values.pivot("system", index="qid", values="value", maintain_order=True)
    gains = gains.sort(pl.col(branch) - pl.col(baseline), descending=True, maintain_order=True)
    won, lost = (gains.filter(pl.col(a) > pl.col(b)) for a, b in ((branch, baseline), (baseline, branch)))
    texts, first = dict(pl.read_parquet(project.queries("test"), columns=["qid", "text"]).iter_rows()), []
    shown = pl.concat([won.head(CASES), lost.tail(CASES)])
    for system in systems:
        run = read_run(project.run_file(system, "test")).filter(pl.col("qid").is_in(shown["qid"].implode()), rank=1)
        read = passage_texts(run["pid"])
        first.append({qid: shortened(read[pid], LONGEST) for qid, pid in run.select("qid", "pid").iter_rows()})
    rows = [
        [texts[qid], *(of.get(qid, NOTHING) for of in first), f"{before:.2f} → {after:.2f}"]
        for qid, before, after in shown.select("qid", *systems).iter_rows()
    ]
    return Table(
        title=f"{title_of(branch)} against {title_of(baseline)}, test queries",
        columns=["query", *(f"first by {title_of(system)}" for system in systems), measure],
        rows=rows,
        note=f"{len(won):,} queries better, {len(lost):,} worse, {len(gains) - len(won) - len(lost):,} the same",
    )


def passage_texts(pids: pl.Series) -> dict[str, str]:
    """Id -> title and text of some passages."""
    found = pl.scan_parquet(project.PASSAGES).filter(pl.col("pid").is_in(pids.unique().implode()))
    rows = found.select("pid", "title", "text").collect(engine="streaming").iter_rows()
    return {pid: with_title(title, text) for pid, title, text in rows}
