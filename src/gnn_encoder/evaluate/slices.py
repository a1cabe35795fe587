"""Slices: systems on the judged queries that share a property, and whether they differ from a baseline there.

similarity  the third that a query is in by its similarity to the nearest training query
labelled    yes: at least one of its relevant passages is labelled for a training query
cut         yes: at least one of its relevant passages is longer than what the encoder reads
retrieved   yes: at least one of its relevant passages has an edge, which a training query retrieved (main branch)

Also what the GNN attends to, by kind of neighbour (Figure 2), queries that it answers and M_de does not (Table 5), and
whether training queries still find what they are labelled with.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gnn_encoder.base.judgements import Identical, relevant_pairs, with_rows
from gnn_encoder.base.matrix import Matrix, Rows, of_length_1
from gnn_encoder.base.runs import read_run
from gnn_encoder.base.tables import read_column, with_title
from gnn_encoder.evaluate.judge import Judgements
from gnn_encoder.evaluate.measures import Comparison, compare, corrected, interval
from gnn_encoder.evaluate.tables import NOTHING, Table, are_of_prepared, comparison, shortened
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.project import CONTROL, MAIN, REFERENCE, registry, title_of
from gnn_encoder.search.exact import array_top_k
from gnn_encoder.search.faiss_index import PassageIndex
from gnn_encoder.text import corpus
from gnn_encoder.text.batches import Inputs

SIMILARITY, LABELLED, CUT, RETRIEVED = "similarity", "labelled", "cut", "retrieved"
THIRDS = ("lower third", "middle third", "upper third")
SHOWN_AS = {
    SIMILARITY: "nearest training query",
    LABELLED: "a relevant passage is labelled in training",
    CUT: "a relevant passage is cut",
    RETRIEVED: "a training query retrieves a relevant passage",
}
ASKED_AGAIN = 1_000  # labelled training queries that are asked again
DECIMALS = 3  # of a similarity: equal queries must not differ by the noise of the arithmetic


@dataclass(frozen=True, kw_only=True)
class About:
    """What the properties of a split's queries mean."""

    thirds: tuple[float, float]  # similarities from which on a query is in the middle third, and in the upper third
    passage_length: int  # most tokens that the encoder reads of a passage, special ones included
    left_out: tuple[str, ...]  # properties without a column, because nobody knows which passages are relevant


@dataclass(frozen=True, kw_only=True)
class Slice:
    """The judged queries with one value of a property, and how many they are."""

    queries: int
    means: dict[str, float]  # system -> mean of the measure over them, in 0..1
    against: dict[str, Comparison]  # system -> minus the baseline; p_holm is corrected for all slices of the system


Properties = tuple[pl.DataFrame, About]  # column qid, then one for each property; what they mean


@dataclass(frozen=True, kw_only=True)
class Sliced:
    """The slices of a split, property -> its value -> slice, with what the properties mean."""

    measure: str
    baseline: str
    about: About
    slices: dict[str, dict[str, Slice]]


def slice_systems(values: pl.DataFrame, properties: Properties, measure: str, baseline: str) -> Sliced:
    """Means on each slice of a split, and differences from the baseline; `values` are of the measure alone."""
    (table, about), found = properties, dict[str, dict[str, Slice]]()
    wide = values.pivot("system", index="qid", values="value", maintain_order=True)
    systems, wide = wide.columns[1:], wide.join(table, on="qid", maintain_order="left")
    parts = {
        (name, label): {of.name: of.to_numpy() for of in wide.filter(pl.col(name) == label)[systems]}
        for name in table.columns[1:]
        for label in table[name].drop_nulls().unique().sort()
    }
    tests = {
        system: corrected({key: compare(of[system], of[baseline], baseline) for key, of in parts.items()})
        for system in systems
        if system != baseline
    }
    for (name, label), of in parts.items():
        means = {system: float(values.mean()) for system, values in of.items()}
        against = {system: of_system[name, label] for system, of_system in tests.items()}
        found.setdefault(name, {})[str(label)] = Slice(queries=len(of[baseline]), means=means, against=against)
    return Sliced(measure=measure, baseline=baseline, about=about, slices=found)


def asked_again(systems: Iterable[str], name: str, params: Params) -> dict[str, float]:
    """The mean of a measure over a sample of the labelled training queries, by system with an index.

    Where dev and test ask for other passages, ranking the labelled ones lower gains there, and loses what is known.
    """
    judge, found = Judgements("train"), dict[str, float]()
    rows = np.sort(np.random.default_rng(params.seed).permutation(judge.judged_rows())[:ASKED_AGAIN])
    identical = Identical.read(project.IDENTICAL, "train").of_queries(rows)

    @lru_cache(maxsize=1)  # systems with one encoder stand together
    def asked(encoder: Path) -> Matrix:
        opened = corpus.load_encoder(encoder, params.encoder)
        return corpus.embed_queries(opened, judge.queries, params.encoder.batch_tokens, rows)

    for system in systems:
        index, queries = PassageIndex.open(project.index(system)), asked(project.encoder(system))
        ranking, _ = identical.search(partial(index.search, queries), params.retrieve.depth, index.passages)
        (found[system],) = judge.means([ranking], rows, name)
    return found


def query_properties(params: Params, retrieved: Rows | None) -> dict[str, Properties]:
    """Compare the judged queries of each split with the training queries, by M_de: split -> their properties.

    `retrieved`: the passages that have edges in the graph, where there is one.
    """
    section, encoder = params.encoder, corpus.load_encoder(project.encoder(REFERENCE), params.encoder)
    train = corpus.open_queries(project.queries("train"), encoder)
    logged, asked = corpus.embed_queries(encoder, train, section.batch_tokens), corpus.embed_judged(encoder, section)
    cosines = array_top_k(of_length_1(logged), of_length_1(np.concatenate(list(asked.values()))), 1)[1][:, 0]
    nearest = np.split(cosines.astype(np.float64).round(DECIMALS), np.cumsum([len(one) for one in asked.values()])[:-1])
    labelled = relevant_pairs(*project.tables("train"))["passage"].unique().to_numpy()
    read = corpus.passage_inputs(encoder, corpus.open_passages(encoder))
    how = labelled, read, retrieved
    return {split: properties_of(split, of, *how) for split, of in zip(asked, nearest, strict=True)}


def properties_of(
    split: str, similarities: NDArray[np.float64], labelled: Rows, read: Inputs, retrieved: Rows | None
) -> Properties:
    """The properties of a split's judged queries. A query without a relevant passage has null.

    Where answers judge, the relevant passages are those of `first_retrievers`, which knows the dev queries alone. Each
    query of the split has a similarity to the nearest training query; `labelled` are rows of what M_de has `read`.
    """
    judge = Judgements(split)
    of_passages = [LABELLED, CUT, *([] if retrieved is None else [RETRIEVED])]
    rows, left_out = judge.judged_rows(), tuple(of_passages) if judge.by_answers and split != "dev" else ()
    third, bounds = thirds(similarities[rows])
    qids = read_column(judge.queries, "qid")[rows]
    table = pl.DataFrame({"query": pl.Series(rows, dtype=pl.Int32), "qid": qids, SIMILARITY: third})
    if not left_out:
        pairs = relevant_pairs(judge.queries, project.POSITIVES if split == "dev" else judge.qrels, judge.passages)
        found = pairs["passage"].to_numpy()
        values = {LABELLED: np.isin(found, labelled), CUT: read.is_cut(found)}
        values |= {} if retrieved is None else {RETRIEVED: np.isin(found, retrieved)}
        flags = pairs.with_columns(**{name: pl.Series(of) for name, of in values.items()})
        flags = flags.group_by("query").agg(pl.col(of_passages).any().replace_strict({True: "yes", False: "no"}))
        table = table.join(flags, on="query", how="left", maintain_order="left")
    return table.drop("query"), About(thirds=bounds, passage_length=read.length, left_out=left_out)


def thirds(similarities: NDArray[np.float64]) -> tuple[NDArray[np.str_], tuple[float, float]]:
    """The third that each query is in, and where the middle and the upper one begin. *Shape:* (n,), n >= 1 -> (n,).

    Equal similarities are always in the same third, the higher of those that they could be in; the lower or the middle
    one may then be empty.
    """
    ordered, last = np.sort(similarities), len(similarities) - 1
    middle, upper = (float(ordered[min(last, -(-part * len(ordered) // 3))]) for part in (1, 2))
    return np.array(THIRDS)[(similarities >= middle).astype(int) + (similarities >= upper)], (middle, upper)


def slices_table(branch: str, found: Sliced, split: str) -> Table:
    """A row for each slice of a split's queries: a branch's baseline and main system, and what this must be above."""
    shown = [found.baseline, *([CONTROL] if branch == MAIN else []), branch]
    note = (
        f"Differences are from {title_of(found.baseline)}; p is after Holm's correction for all slices of a system. "
        "Similarity to the nearest training query is by M_de. A passage is cut if it has more than "
        f"{found.about.passage_length} tokens."
    )
    if found.about.left_out:
        note += " Answers judge these queries: their relevant passages, labelled or cut, are not known."
    middle, upper = found.about.thirds
    ends = (f" (below {middle:.3f})", f" ({middle:.3f} to {upper:.3f})", f" (from {upper:.3f})")
    bounds, rows = dict(zip(THIRDS, ends, strict=True)), []
    for name, labels in found.slices.items():
        for label, of in labels.items():
            cells = [comparison(of.against.get(system), of.means.get(system)) for system in shown]
            rows.append([f"{SHOWN_AS[name]}: {label}{bounds.get(label, '')}", f"{of.queries:,}", *cells])
    title = f"{split.capitalize()} queries: {title_of(branch)} by slices, {found.measure}, points of 100"
    return Table(title=title, columns=["Slice", "queries", *map(title_of, shown)], rows=rows, note=note)


PASSAGES = 2_000  # whose attention is averaged, spread evenly over those that a query retrieved
CASES = 10  # queries that are shown: of Table 5, and of those that gain most and that lose most
QUERIES = 5  # of a case, those with the most attention
KINDS = {"labelled": "a labelled query", "other": "another query", "itself": "the passage itself"}
LONGEST = 300  # characters that a passage is cut to


def what_informs(retrieved: Rows, attend: Callable[[Rows], pl.DataFrame]) -> dict[str, Any]:
    """The attention at a sample of the retrieved passages, and dev queries that GNN-encoder alone answers at rank 1.

    Those that M_de ranks lowest come first; `counts` says how many there are, and how many M_de alone answers. `attend`
    gives the `ATTENTION` table of some passages.
    """
    ours, theirs = (read_run(project.run_file(system, "dev")) for system in (MAIN, REFERENCE))
    mine, there = Judgements("dev").measure([ours, theirs], ["P@1"])
    judged = mine.join(there, on="qid", suffix="_there")
    won, lost = (judged.filter(value=mine, value_there=1 - mine).select("qid") for mine in (1, 0))
    found = won.join(ours.filter(rank=1).select("qid", "pid"), on="qid")
    found = found.join(theirs.select("qid", "pid", "rank"), on=["qid", "pid"], how="left")  # null: not found
    found = found.sort(pl.col("rank"), "qid", descending=[True, False], nulls_last=False).head(CASES)
    found = with_rows(found, project.queries("dev"), project.PASSAGES)
    sample = retrieved[np.linspace(0, len(retrieved) - 1, min(len(retrieved), PASSAGES)).astype(np.int64)]
    attention = attend(np.union1d(sample, np.intersect1d(found["passage"].to_numpy(), retrieved)))
    pairs = relevant_pairs(*project.tables("train"))
    return {
        "attention": attention_shares(attention, pairs),
        "counts": {"queries": len(judged), "won": len(won), "lost": len(lost)},
        "cases": _described(found, attention, pairs),
    }


def _described(won: pl.DataFrame, attention: pl.DataFrame, pairs: pl.DataFrame) -> list[dict[str, Any]]:
    """The cases with their texts and what informed the passage."""
    texts, nodes = (read_column(table, "text") for table in (project.queries("dev"), project.NODES))
    read, cases = passage_texts(won["pid"]), []
    for case in won.iter_rows(named=True):
        rows = attention.filter(pl.col("query") >= 0, passage=case["passage"]).sort("attention", descending=True)
        top = rows.head(QUERIES).join(pairs.with_columns(labelled=True), on=["query", "passage"], how="left")
        top = top.select(nodes.gather(top["query"]).alias("query"), "attention", pl.col("labelled").fill_null(False))
        told = {"query": texts[case["query"]], "passage": read[case["pid"]]}
        cases.append(told | {"rank_of_dual_encoder": case["rank"], "informed_by": top.to_dicts()})
    return cases


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
    kinds = f"{number:,} passages that both a labelled query and another one retrieved"
    note = f"{kinds}. Where the first is above the second, labelled queries inform passages more than others do."
    title = "Attention to one neighbour of a passage"
    return Table(title=title, columns=["Attention to", "mean", "95% interval"], rows=rows, note=note)


def cases_table(cases: list[dict[str, Any]], counts: dict[str, int]) -> Table:
    """One row per case; its second cell names the queries that informed the passage."""
    rows = []
    for case in cases:
        heard = [(one["attention"], "*" if one["labelled"] else "", one["query"]) for one in case["informed_by"]]
        informed = [f"{share:.2f}{mark} {query}" for share, mark, query in heard] or ["no training query informed it"]
        told = [shortened(case["passage"], LONGEST), *informed]
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
    if not are_of_prepared(systems):
        return None
    values = pl.concat(pl.read_parquet(project.measured(one) / project.VALUES) for one in systems)
    values = values.filter(split="test", measure=measure)
    if values["system"].n_unique() < len(systems):  # they are of an earlier measure
        return None
    gains = values.pivot("system", index="qid", values="value", maintain_order=True)
    gains = gains.sort(pl.col(branch) - pl.col(baseline), descending=True, maintain_order=True)
    won, lost = (gains.filter(pl.col(a) > pl.col(b)) for a, b in ((branch, baseline), (baseline, branch)))
    runs = [read_run(project.run_file(system, "test")).filter(rank=1) for system in systems]
    texts = dict(pl.read_parquet(project.queries("test"), columns=["qid", "text"]).iter_rows())
    first, rows = [dict(run.select("qid", "pid").iter_rows()) for run in runs], list[list[str]]()
    changes = pl.concat([won.head(CASES), lost.tail(CASES)]).select("qid", *systems).rows()
    read = passage_texts([of[qid] for of in first for qid, *_ in changes if qid in of])
    for qid, before, after in changes:
        shown = [shortened(read[of[qid]], LONGEST) if qid in of else NOTHING for of in first]
        rows.append([texts[qid], *shown, f"{before:.2f} → {after:.2f}"])
    title = f"{title_of(branch)} against {title_of(baseline)}, test queries"
    columns = ["query", *(f"first by {title_of(system)}" for system in systems), measure]
    note = f"{len(won):,} queries better, {len(lost):,} worse, {len(gains) - len(won) - len(lost):,} the same"
    return Table(title=title, columns=columns, rows=rows, note=note)


def passage_texts(pids: Iterable[str]) -> dict[str, str]:
    """Id -> title and text of some passages."""
    found = pl.scan_parquet(project.PASSAGES).filter(pl.col("pid").is_in(list(pids))).select("pid", "title", "text")
    return {pid: with_title(title, text) for pid, title, text in found.collect(engine="streaming").iter_rows()}
