"""The trials of ablations and sweeps: the main system with another section `mgt` or another graph, some seeds each."""

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from gnn_encoder.core import distributed
from gnn_encoder.core.identical import Identical
from gnn_encoder.core.records import ATTENTION
from gnn_encoder.core.rows import Matrix, Rows
from gnn_encoder.core.runs import as_run
from gnn_encoder.core.storage.arrays import gather, open_matrix
from gnn_encoder.core.storage.atomic import publish
from gnn_encoder.core.storage.scratch import WORK
from gnn_encoder.core.storage.tables import count_rows, read_column, write_table
from gnn_encoder.encoding.corpus import embed_passages, origin_of, unchanged
from gnn_encoder.evaluation.judge import Judgements
from gnn_encoder.evaluation.measures import parse
from gnn_encoder.index.exact import exact_top_k
from gnn_encoder.mgt.phases import train_control, train_gnn_encoder
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.graphs import GraphArtifacts, graph_encoder, open_given, open_informer
from gnn_encoder.pipeline.opening import embed_rows, load_encoder, open_passages, open_queries, write_matrix
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.systems import title_of

PASSAGES_AT_A_TIME = 8_192


def measured_names(params: Params) -> list[str]:
    """The measures of the evidence, in ir-measures' names; the measure of the comparisons is among them."""
    tested = parse([params.evaluate.significance], "evaluate.significance")
    return list(parse(params.evidence.measures, "evidence.measures") | tested)


def run_with_seed(name: str, params: Params, seed: int, folder: Path, *, attention: Path | None) -> pl.DataFrame:
    """Train the trial `name` with one seed, encode, search exactly: columns seed, split, qid, measure, value.

    Args:
        folder: scratch folder of this trial and seed. After a kill the same call continues from what is in it; at the
            end only the values stay.
        attention: file for the model's `ATTENTION` table; None: it is not written.
    """
    kept = folder / project.VALUES
    if not kept.exists():
        measured_names(params)  # a mistake in them is told before the training
        trial = params.evidence.trials[name]
        source = GraphArtifacts(name=trial.graph, k=trial.k)
        params = params.of_trial(trial).model_copy(update={"seed": seed})
        model, matrix = folder / "model", folder / "embeddings"
        _train(source, params, folder, model, control=trial.control)
        origin = origin_of(model / "encoder", project.PASSAGES)
        encoder, encoded = graph_encoder(source, model, params)
        inform = unchanged if trial.control else open_informer(source, model, encoder, params)
        write_matrix(encoder, matrix, params, origin, encoded=encoded, transform=inform)
        distributed.barrier()
        if distributed.is_first():
            with distributed.alone():
                if attention is not None:
                    _write_attention(source, params, model, attention)
                values = pl.concat([_measure(split, model, matrix, params) for split in project.JUDGED])
            partial = kept.with_suffix(".partial")
            values.select(pl.lit(seed, pl.Int64).alias("seed"), *values.columns).write_parquet(partial)
            publish(partial, kept)
            for part in (model, matrix, folder / WORK):
                shutil.rmtree(part, ignore_errors=True)
    distributed.barrier()
    return pl.read_parquet(kept)


def _train(source: GraphArtifacts, params: Params, folder: Path, model: Path, *, control: bool) -> None:
    if model.exists():
        return
    partial = folder / "model.partial"
    given, work = open_given(source.base, params), folder / WORK
    if control:
        train_control(given, params.train_no_gnn, work, title=title_of("no_gnn"))
    else:
        data, nodes = source.data(params.mgt.edge_features), open_queries(source.queries, given.encoder)
        labels = {"labelled": params.build_graph.labelled, "labelled_edges": params.encode_corpus.labelled_edges}
        gnn, _ = train_gnn_encoder(given, data, nodes, work, **labels)
        gnn.save(partial)
    given.encoder.save(partial / "encoder")
    if distributed.is_first():
        publish(partial, model)
    distributed.barrier()


def _measure(split: str, model: Path, matrix: Path, params: Params) -> pl.DataFrame:
    names = measured_names(params)
    encoder = load_encoder(model / "encoder", params.encoder)
    queries = embed_rows(encoder, project.queries(split), params.encoder)
    n_passages, identical = count_rows(project.PASSAGES), Identical.read(project.IDENTICAL, split)
    passages, _ = identical.search(partial(exact_top_k, matrix, queries), params.retrieve.depth, n_passages)
    qids, pids = read_column(project.queries(split), "qid"), read_column(project.PASSAGES, "pid")
    run = as_run(passages, pl.Series(qids), pl.Series(pids))
    values = Judgements.of(params.evaluate, *project.tables(split)).measure(run, names)
    return values.select(pl.lit(split).alias("split"), *values.columns)


def _write_attention(source: GraphArtifacts, params: Params, model: Path, path: Path) -> None:
    """Write the `ATTENTION` table of all passages that some query retrieved."""
    encoder, encoded = graph_encoder(source, model, params)
    inform = open_informer(source, model, encoder, params)

    def embed(rows: Rows) -> Matrix:
        if encoded is not None:
            return gather(open_matrix(encoded), rows).astype(np.float32)
        return embed_passages(encoder, open_passages(encoder), params.encoder.batch_tokens, rows)

    def parts() -> Iterator[pa.Table]:
        for first in range(0, len(inform.retrieved), PASSAGES_AT_A_TIME):
            rows = inform.retrieved[first : first + PASSAGES_AT_A_TIME]
            yield inform.explain(rows, embed(rows))

    write_table(path, ATTENTION, parts())
