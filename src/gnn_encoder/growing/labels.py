"""Which queries are labelled with a passage, by its id: the labels of a changed passage go on to hold."""

import polars as pl

from gnn_encoder.baselines.choice import read_choice
from gnn_encoder.growing.overlay import Overlay
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.systems import registry


def built_rows(pids: pl.Series) -> pl.DataFrame:
    """The rows that ids have in the built index, deleted ones among them: columns pid, row."""
    wanted = pids.unique().implode()
    table = pl.scan_parquet(project.PASSAGES).select("pid").with_row_index("row")
    return table.filter(pl.col("pid").is_in(wanted)).collect(engine="streaming")


def logged_pairs(overlay: Overlay, pids: pl.Series) -> pl.DataFrame:
    """The logged queries that are labelled with passages: columns query, the number among all logged ones, and pid."""
    wanted = pids.unique().implode()
    found = [pl.DataFrame(schema={"query": pl.Int32, "pid": pl.String})]
    for segment in overlay.segments:
        if segment.pairs.is_file():
            pairs = pl.scan_parquet(segment.pairs).filter(pl.col("pid").is_in(wanted)).collect()
            found.append(pairs.with_columns(pl.col("query") + segment.first_query))
    return pl.concat(found)


def labels_lower(system: str) -> bool:
    """Whether passages with a label were the less likely answers on dev, as the choice of a baseline tells.

    For `query_mean` that is its own choice. The GNN has learnt from the data that chose M_de's prior for labels.
    """
    folder = project.embeddings(system) if system in registry().shifted else project.RUNS / "label_prior"
    return (folder / project.CHOICE).is_file() and float(read_choice(folder).chosen.setting["weight"]) < 0


def training_queries(pids: pl.Series) -> pl.DataFrame:
    """The training queries that are labelled with passages: columns pid, text."""
    pairs = pl.scan_parquet(project.qrels("train")).filter(
        (pl.col("grade") > 0) & pl.col("pid").is_in(pids.unique().implode())
    )
    texts = pl.scan_parquet(project.queries("train")).select("qid", "text")
    return pairs.join(texts, on="qid").select("pid", "text", "qid").unique().sort("pid", "qid").drop("qid").collect()


def logged_queries(overlay: Overlay) -> pl.LazyFrame:
    """All logged queries: columns text, and query, their number."""
    tables = [pl.LazyFrame(schema={"text": pl.String, "query": pl.Int32})]
    for segment in overlay.segments:
        if segment.entry.queries:
            number = pl.int_range(pl.len(), dtype=pl.Int32) + segment.first_query
            tables.append(pl.scan_parquet(segment.queries).with_columns(query=number))
    return pl.concat(tables)
