"""Which of a passage's queries the trained network listens to, with and without Masked Graph Training (Figure 2)."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import polars as pl

from gnn_encoder.evaluation.significance import Comparison, compare, interval

ITSELF, LABELLED, POTENTIAL, OTHER = "itself", "labelled", "potential", "other"
KINDS = (LABELLED, POTENTIAL, OTHER, ITSELF)
MODELS = ("without", "with")  # models trained without and with MGT
LARGEST = 12  # most queries of a passage that the figure shows


@dataclass(frozen=True, kw_only=True)
class Share:
    """Mean attention (0..1) to one neighbour of a kind, over passages, with its 95% interval."""

    passages: int
    mean: float
    low: float
    high: float


def around_labelled(attention: pl.LazyFrame, pairs: pl.DataFrame) -> pl.DataFrame:
    """Keep the passages of an `ATTENTION` table that a query labelled with them retrieved; add the column `labelled`.

    Args:
        pairs: columns query, passage: which queries are labelled with which passages.
    """
    rows = attention.join(
        pairs.lazy().with_columns(labelled=True), on=["query", "passage"], how="left", maintain_order="left"
    )
    rows = rows.with_columns(pl.col("labelled").fill_null(False))
    known = rows.filter("labelled").select("passage").unique()
    return rows.join(known, on="passage", how="semi", maintain_order="left").collect()


def with_kinds(rows: pl.DataFrame, scores: np.ndarray) -> pl.DataFrame:
    """Add the columns `score` and `kind`.

    A query is `potential`, that is potentially relevant, when it is not labelled with the passage but the
    cross-encoder scores the pair no lower than the passage's lowest-scored labelled query. (In the paper, a potential
    query should have the passage as a positive but for some reason is not labelled with it; the paper does not say how
    such queries were found.)

    Args:
        rows: columns query, passage, labelled, ...; query -1 is the passage itself.
        scores: M_ce's relevance of the rows that have a query. *Shape:* (rows with a query,).
    """
    asked = pl.col("query") >= 0
    place = rows.select(asked.cum_sum()).to_series().to_numpy() - 1
    scored = pl.Series("score", scores, pl.Float64).gather(place.clip(min=0))
    rows = rows.with_columns(score=pl.when(asked).then(scored))
    lowest = pl.col("score").filter(pl.col("labelled")).min().over("passage")
    kind = (
        pl.when(~asked)
        .then(pl.lit(ITSELF))
        .when("labelled")
        .then(pl.lit(LABELLED))
        .when(pl.col("score") >= lowest)
        .then(pl.lit(POTENTIAL))
        .otherwise(pl.lit(OTHER))
    )
    return rows.with_columns(kind=kind)


def beside(with_mgt: pl.DataFrame, without: pl.DataFrame) -> pl.DataFrame:
    """Both models' attention and gate in one table: columns `with`, `without`, `gate_with`, `gate_without`.

    Args:
        with_mgt: rows of the model with MGT, with all columns of `with_kinds`.
        without: `ATTENTION` rows of the model without MGT on the same graph.
    """
    other = without.select(
        "query", "passage", pl.col("attention").alias("without"), pl.col("gate").alias("gate_without")
    )
    named = with_mgt.rename({"attention": "with", "gate": "gate_with"})
    return named.join(other, on=["query", "passage"], how="left", maintain_order="left", validate="1:1")


def shares(table: pl.DataFrame) -> dict[str, dict[str, dict[str, object]]]:
    """Kind -> `without`, `with` (a `Share` each) and `difference` (with MGT minus without).

    A passage's value is its mean attention over the neighbours of the kind. Passages whose queries are all labelled are
    left out: there is no other query that the network could listen to.
    """
    contested = table.filter((~pl.col("labelled") & (pl.col("query") >= 0)).any().over("passage"))
    found: dict[str, dict[str, dict[str, object]]] = {}
    for kind in KINDS:
        values = contested.filter(kind=kind).group_by("passage", maintain_order=True).agg(pl.col(*MODELS).mean())
        if values.is_empty():
            continue
        columns = {model: values[model].cast(pl.Float64).to_numpy() for model in MODELS}
        found[kind] = {model: asdict(_share(column)) for model, column in columns.items()}
        found[kind]["difference"] = asdict(_difference(columns))
    return found


def examples(table: pl.DataFrame, count: int) -> list[pl.DataFrame]:
    """The passages for the figure: those with the most queries among the passages that fit.

    A passage fits if it has at most `LARGEST` queries, of which some are labelled and some are potential. Each table
    holds a passage's queries, most attention without MGT first, and then the passage itself.
    """
    asked = table.filter(pl.col("query") >= 0)
    kinds = asked.group_by("passage").agg(pl.len().alias("queries"), pl.col("kind").unique())
    both = [pl.col("kind").list.contains(kind) for kind in (LABELLED, POTENTIAL)]
    fit = kinds.filter(pl.col("queries") <= LARGEST, *both).sort(["queries", "passage"], descending=[True, False])
    order = [pl.col("query") < 0, pl.col("without")]
    return [
        table.filter(passage=passage).sort(order, descending=[False, True]) for passage in fit["passage"].head(count)
    ]


def labels(rows: pl.DataFrame, texts: Sequence[str]) -> list[str]:
    """The label of each row: its query, or the passage itself. `texts` are of the rows that have a query."""
    remaining = iter(texts)
    return ["(the passage itself)" if query < 0 else next(remaining) for query in rows["query"]]


def _share(values: np.ndarray) -> Share:
    low, high = interval(values)
    return Share(passages=len(values), mean=float(values.mean()), low=low, high=high)


def _difference(columns: dict[str, np.ndarray]) -> Comparison:
    return compare(columns["with"], columns["without"], "without")
