"""The section Query by query: the queries that won or lost most, with each system's first passages for them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import polars as pl

from gnn_encoder.core.records import PASSAGES, QRELS, QUERIES, open_table
from gnn_encoder.core.storage.tables import ROW_GROUP
from gnn_encoder.evaluation.documents import DOCUMENT
from gnn_encoder.evaluation.measures import parse
from gnn_encoder.evaluation.params import Evaluate
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.systems import registry
from gnn_encoder.presenting.names import name_of
from gnn_encoder.presenting.page.rankings import first_passages
from gnn_encoder.presenting.page.wins import Pair, pairs, read_values
from gnn_encoder.presenting.params import Report

BUDGET = 1_500_000  # characters of all passages of the page together
SHORTEST, LONGEST = 80, 600  # characters that one passage is cut to: at least, at most


@dataclass(frozen=True, kw_only=True)
class Text:
    """A passage, with its title and text cut."""

    pid: str
    title: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Query:
    """A query with its results.

    Attributes:
        values: the measure's value for each system; None if the query was not measured for it.
        passages: for each system its first passages, as places in `View.texts`.
        relevant: the relevant ones among all these passages.
    """

    qid: str
    text: str
    values: list[float | None]
    passages: list[list[int]]
    relevant: list[int]


@dataclass(frozen=True, kw_only=True)
class Split:
    """The shown queries of a split, and pairs of systems, which refer to queries by their place in `queries`."""

    name: str
    queries: list[Query]
    pairs: list[Pair]


@dataclass(frozen=True, kw_only=True)
class View:
    """All data that are embedded in the page.

    Attributes:
        measure: the measure that queries are compared by.
        cut: characters that passages are cut to.
        systems: names of the systems in systems.yaml.
        names: titles of the systems.
        splits: test before dev.
        texts: the passages that are shown.
    """

    measure: str
    cut: int
    systems: list[str]
    names: list[str]
    splits: list[Split]
    texts: list[Text]

    @property
    def first(self) -> tuple[Split, Pair] | None:
        """The split and pair that the page shows first: if possible a branch's main system against its baseline."""
        own = [(one.baseline, name) for name, one in registry().branches.items()]  # named after its main system
        every = [(split, pair) for split in self.splits for pair in split.pairs]
        ranked = sorted(every, key=lambda one: _place((one[1].first, one[1].second), own))
        return ranked[0] if ranked else None


Tops = dict[str, pl.DataFrame]  # system -> qid, pid, rank


def read_view(section: Evaluate, shown: Report) -> View | None:
    """Choose queries, and read their results and texts. None if fewer than two systems have been measured.

    Memory grows with the number of measured queries and of shown passages, not with the corpus.
    """
    (measure,) = parse([section.significance])
    systems = [name for name in registry().systems if _is_there(name, measure)]
    if len(systems) < 2:
        return None
    chosen = {split: _choose(systems, split, measure, shown.queries) for split in reversed(project.JUDGED)}
    tops = {
        split: {name: first_passages(project.run_file(name, split), values["qid"], shown.passages) for name in systems}
        for split, (values, _) in chosen.items()
    }
    texts, cut = _texts(pl.concat([top["pid"] for of in tops.values() for top in of.values()]).unique())
    places = {text.pid: place for place, text in enumerate(texts)}
    splits = [
        Split(name=split, queries=list(_queries(split, values, tops[split], places, section)), pairs=found)
        for split, (values, found) in chosen.items()
    ]
    names = [name_of(system) for system in systems]
    return View(measure=measure, cut=cut, systems=systems, names=names, splits=splits, texts=texts)


def _is_there(system: str, measure: str) -> bool:
    """Whether a system has its runs, and values of the measure; values of an earlier choice of measures have not."""
    values = project.measured(system) / project.VALUES
    if not values.is_file() or not all(project.run_file(system, split).is_file() for split in project.JUDGED):
        return False
    found = pl.scan_parquet(values).filter(measure=measure).select(pl.col("split").unique()).collect()
    return {*project.JUDGED} <= {*found["split"]}


def _place(pair: tuple[str, str], own: list[tuple[str, str]]) -> int:
    return own.index(pair) if pair in own else len(own)


def _choose(systems: list[str], split: str, measure: str, top: int) -> tuple[pl.DataFrame, list[Pair]]:
    """The values of the queries that some pair shows, and the pairs, which refer to rows of this table."""
    values = read_values(systems, split, measure)
    found = pairs(values, top)
    rows = sorted({row for pair in found for row in pair.won + pair.lost})
    place = {row: at for at, row in enumerate(rows)}
    moved = [
        replace(pair, won=[place[row] for row in pair.won], lost=[place[row] for row in pair.lost]) for pair in found
    ]
    return values[rows], moved


def _texts(pids: pl.Series) -> tuple[list[Text], int]:
    """The passages `pids`, in the corpus's order, and the number of characters that their texts are cut to."""
    cut = min(LONGEST, max(SHORTEST, BUDGET // max(1, len(pids))))
    found = []
    for batch in open_table(project.PASSAGES, PASSAGES).iter_batches(batch_size=ROW_GROUP):
        kept = pl.DataFrame(batch).filter(pl.col("pid").is_in(pids.implode()))
        found += [Text(pid=pid, title=_cut(title, SHORTEST), text=_cut(text, cut)) for pid, title, text in kept.rows()]
    return found, cut


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def _queries(
    split: str, values: pl.DataFrame, tops: Tops, places: dict[str, int], section: Evaluate
) -> Iterator[Query]:
    table = pl.DataFrame(open_table(project.queries(split), QUERIES).read(columns=["qid", "text"]))
    asked = dict(table.filter(pl.col("qid").is_in(values["qid"].implode())).rows())
    shown = [_by_query(top) for top in tops.values()]
    relevant = _relevant(split, pl.concat([top.select("qid", "pid") for top in tops.values()]), section.by)
    (measure,) = parse([section.significance])
    for qid, *row in values.iter_rows():
        passages = [[places[pid] for pid in of.get(qid, [])] for of in shown]
        right = {places[pid] for pid in relevant.get(qid, [])}
        if section.by == "passage":  # else values are of ranks of documents
            right |= {
                found for value, top in zip(row, passages, strict=True) for found in _first_right(measure, value, top)
            }
        yield Query(
            qid=qid, text=asked[qid], values=row, passages=passages, relevant=sorted(right & set(sum(passages, [])))
        )


def _first_right(measure: str, value: float | None, top: list[int]) -> list[int]:
    """The place of the first relevant passage, computed from a reciprocal rank; empty if there is none.

    In data that are judged by answers there are no qrels, so that this is the only relevant passage known here.
    """
    rank = round(1 / value) if value and measure.startswith("RR") else 0
    return top[rank - 1 : rank] if rank else []


def _by_query(top: pl.DataFrame) -> dict[str, list[str]]:
    return dict(top.group_by("qid", maintain_order=True).agg("pid").rows())


def _relevant(split: str, shown: pl.DataFrame, by: Literal["passage", "document"]) -> dict[str, list[str]]:
    """The shown passages (columns qid, pid) that are judged relevant, or are of documents that are."""
    judged = pl.DataFrame(open_table(project.qrels(split), QRELS).read()).filter(pl.col("grade") > 0)
    key = DOCUMENT if by == "document" else pl.col("pid")
    right = judged.select("qid", key=key).unique()
    return _by_query(shown.unique(maintain_order=True).with_columns(key=key).join(right, on=["qid", "key"], how="semi"))
