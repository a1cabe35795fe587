"""What the figures of PAIR and of Dual-Cross-Encoder are drawn from, where their artifacts lie."""

from typing import Any

import numpy as np
import polars as pl

from gnn_encoder.base.files import read_json
from gnn_encoder.base.judgements import Identical, relevant_pairs
from gnn_encoder.base.matrix import Rows, gather, open_matrix
from gnn_encoder.base.runs import as_run, read_run
from gnn_encoder.base.tables import read_column
from gnn_encoder.dual_cross.quality import by_diversity
from gnn_encoder.dual_cross.views import measure_views, pool_of
from gnn_encoder.evaluation.measures import mean, parse
from gnn_encoder.pair import not_answering, similarities, triples
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.judging import judgements, read_values
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.project import registry
from gnn_encoder.text.opening import embed_table


def pair_similarities(params: Params) -> dict[str, dict[str, float]]:
    """System -> mean s(p+, q) and s(p+, p-), with and without the passage-centric loss (PAIR's Figure 4)."""
    queries = project.queries("dev")
    pairs = relevant_pairs(queries, project.POSITIVES, project.PASSAGES)
    run = read_run(project.run_file("retriever", "dev"))
    chosen = triples(pairs, not_answering(run, queries, project.PASSAGES, params.evaluate.answers))
    query, *others = (chosen[name].to_numpy().astype(np.int64) for name in ("query", "passage", "negative"))
    found = {}
    for system in registry().branches["pair"].systems:
        asked, matrix = embed_table(system, queries, params.encoder, query), open_matrix(project.embeddings(system))
        found[system] = similarities(asked, *(gather(matrix, rows).astype(np.float32) for rows in others))
    return found


def views_curve(system: str, params: Params) -> pl.DataFrame:
    """Dev measures with the first view of each passage, with its first two, and so on, and ROUGE-L of their queries."""
    section, asked = params.evaluate, project.queries("dev")
    names = list(parse([*section.measures, section.significance]))
    qids, pids = pl.Series(read_column(asked, "qid")), pl.Series(read_column(project.PASSAGES, "pid"))

    def judge(rankings: Rows) -> dict[str, float]:
        return mean(judgements("dev", section).measure(as_run(rankings, qids, pids), names))

    queries, pool = embed_table(system, asked, params.encoder), pool_of(params.dual_cross)
    identical, depth = Identical.read(project.IDENTICAL, "dev"), params.retrieve.depth
    curve = measure_views(project.views(system), queries, judge, identical, depth=depth, pool=pool)
    quality = read_json(project.GENERATED / "quality.json", dict[str, Any])["rouge_l"]
    quality = [None] * params.dual_cross.has_plain_view + quality  # the first view is then the passage alone
    of_views = pl.DataFrame({"views": range(1, len(quality) + 1), "ROUGE-L": quality})
    return curve.join(of_views, on="views", maintain_order="left").select("views", "pool", "ROUGE-L", *names)


def views_by_diversity(system: str, params: Params) -> pl.DataFrame:
    """Retrieval of the dev queries by how much alike the generated queries of their passages are (Figure 4)."""
    (measure,) = parse([params.evaluate.significance])
    pairs, qids = pl.read_parquet(project.GENERATED / "pairs.parquet"), read_column(project.queries("dev"), "qid")
    values = read_values([system]).filter(split="dev", measure=measure).select("qid", pl.col("value").alias(measure))
    asked = pairs.with_columns(qid=pl.Series(qids).gather(pairs["query"]))
    return by_diversity(asked.join(values, on="qid"), measure)
