"""Which of a passage's queries the trained network attends to, with and without Masked Graph Training (Figure 2)."""

from dataclasses import asdict
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import expit

from gnn_encoder.core.judgements import relevant_pairs
from gnn_encoder.core.records import ATTENTION, QUERIES, open_table
from gnn_encoder.core.rows import Rows
from gnn_encoder.encoding.inputs import Inputs
from gnn_encoder.encoding.pairs import score_pairs
from gnn_encoder.evaluation.significance import compare, interval
from gnn_encoder.evidence.params import FULL, ITSELF, KINDS, LABELLED, MODELS, NO_MGT, OTHER, POTENTIAL
from gnn_encoder.index.search import TableRows
from gnn_encoder.models.cross_encoder import CrossEncoder
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.graphs import GraphArtifacts
from gnn_encoder.pipeline.opening import open_passages, open_queries
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.systems import MAIN

LARGEST = 12  # most queries of a passage that the figure shows
GRAPH = GraphArtifacts(name=MAIN)


def compare_attention(params: Params, scratch: Path) -> pl.DataFrame:
    """Attention with and without MGT at the passages that a query labelled with them retrieved.

    Columns: those of `ATTENTION` with `with`, `gate_with` for the model with MGT and `without`, `gate_without` for the
    other one; `labelled`; `score`, M_ce's relevance; `kind`.

    Args:
        scratch: folder for M_ce's scores of these edges, from which an interrupted call is resumed.
    """
    pairs = labelled_pairs()
    rows, without = (retrieved_by_labelled(read_attention(name), pairs) for name in (FULL, NO_MGT))
    asked = rows.filter(pl.col("query") >= 0)
    scores = _scores(asked["query"].to_numpy(), asked["passage"].to_numpy(), params, scratch)
    return side_by_side(with_kinds(rows, scores), without)


def retrieved_by_labelled(attention: pl.LazyFrame, pairs: pl.DataFrame) -> pl.DataFrame:
    """Keep the passages of an `ATTENTION` table that a query labelled with them retrieved; add the column `labelled`.

    Args:
        pairs: columns query, passage: which queries are labelled with which passages.
    """
    known = pairs.lazy().with_columns(labelled=True)
    rows = attention.join(known, on=["query", "passage"], how="left", maintain_order="left")
    rows = rows.with_columns(pl.col("labelled").fill_null(False))
    kept = rows.filter("labelled").select("passage").unique()
    return rows.join(kept, on="passage", how="semi", maintain_order="left").collect()


def with_kinds(rows: pl.DataFrame, scores: NDArray[np.floating]) -> pl.DataFrame:
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
    kind = pl.when(~asked).then(pl.lit(ITSELF)).when("labelled").then(pl.lit(LABELLED))
    return rows.with_columns(kind=kind.when(pl.col("score") >= lowest).then(pl.lit(POTENTIAL)).otherwise(pl.lit(OTHER)))


def side_by_side(with_mgt: pl.DataFrame, without: pl.DataFrame) -> pl.DataFrame:
    """Both models' attention and gate on the same graph: columns `with`, `without`, `gate_with`, `gate_without`."""
    other = without.select("query", "passage", without="attention", gate_without="gate")
    named = with_mgt.rename({"attention": "with", "gate": "gate_with"})
    return named.join(other, on=["query", "passage"], how="left", maintain_order="left", validate="1:1")


def shares(table: pl.DataFrame) -> dict[str, dict[str, dict[str, object]]]:
    """Kind -> `without`, `with` (mean attention to one neighbour, its 95% interval) and `difference` (with - without).

    A passage's value is its mean attention over the neighbours of the kind. Passages whose queries are all labelled are
    left out: there is no other query that the network could attend to.
    """
    contested = table.filter((~pl.col("labelled") & (pl.col("query") >= 0)).any().over("passage"))
    found: dict[str, dict[str, dict[str, object]]] = {}
    for kind in KINDS:
        values = contested.filter(kind=kind).group_by("passage", maintain_order=True).agg(pl.col(*MODELS).mean())
        if values.is_empty():
            continue
        columns = {model: values[model].cast(pl.Float64).to_numpy() for model in MODELS}
        found[kind] = {model: _share(column) for model, column in columns.items()}
        found[kind]["difference"] = asdict(compare(columns["with"], columns["without"], "without"))
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


def neighbours(queries: pl.Series) -> list[str]:
    """Texts of queries of the graph; `(the passage itself)` for -1."""
    rows = queries.cast(pl.Int64).to_numpy()
    texts = TableRows(GRAPH.queries, QUERIES).take(np.maximum(rows, 0))
    return ["(the passage itself)" if row < 0 else text["text"] for row, text in zip(rows, texts, strict=True)]


def read_attention(ablation: str) -> pl.LazyFrame:
    """The `ATTENTION` table of an ablation."""
    path = project.trial(ablation) / "attention.parquet"
    open_table(path, ATTENTION)  # tells in one line if the file is damaged
    return pl.scan_parquet(path)


def labelled_pairs() -> pl.DataFrame:
    """The labelled pairs of queries and passages: columns query (a node of the graph), passage."""
    pairs = relevant_pairs(*project.tables("train"))
    return GRAPH.nodes().labelled_pairs(pairs)


def _share(values: NDArray[np.float64]) -> dict[str, object]:
    low, high = interval(values)
    return {"passages": len(values), "mean": float(values.mean()), "low": low, "high": high}


def _scores(queries: Rows, passages: Rows, params: Params, scratch: Path) -> NDArray[np.float32]:
    model = CrossEncoder.load(project.CROSS_ENCODER, precision=params.encoder.precision).for_inference()
    texts = open_queries(GRAPH.queries, model), queries, open_passages(model), passages
    pairs = Inputs.pairs(*texts, model.template, params.train_cross_encoder.max_length)
    found: NDArray[np.float32] = expit(score_pairs(model, pairs, scratch, params.encoder.batch_tokens))
    return found
