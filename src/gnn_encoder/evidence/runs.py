"""One run of a trial: train with one seed, encode the corpus, search exactly, measure every question."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from gnn_encoder.core import distributed, project
from gnn_encoder.core.params import Params
from gnn_encoder.core.records import ATTENTION
from gnn_encoder.core.storage.arrays import gather, open_matrix
from gnn_encoder.core.storage.atomic import publish
from gnn_encoder.core.storage.tables import count_rows, read_column, write_table
from gnn_encoder.encoders.corpus import embed_passages
from gnn_encoder.encoders.dual_encoder import DualEncoder
from gnn_encoder.encoders.texts import open_passages
from gnn_encoder.evaluation.judge import measure_split
from gnn_encoder.evaluation.measures import parse
from gnn_encoder.evaluation.runs import as_run
from gnn_encoder.evidence.trials import Trial, measured_names
from gnn_encoder.index.exact import top_k
from gnn_encoder.informed import inform_corpus, load_encoder, open_informer
from gnn_encoder.matrix import keeps_base, write_matrix
from gnn_encoder.mgt.phases import train_control, train_gnn_encoder

PASSAGES_AT_A_TIME = 8_192
MANIFEST = {"model_fingerprint": "", "input_fingerprint": ""}  # of a matrix that is searched once and dropped


def run_with_seed(trial: Trial, seed: int, folder: Path, *, attention: Path | None) -> pl.DataFrame:
    """Columns seed, split, qid, measure, value.

    Args:
        folder: scratch folder of this run; after a kill the same call goes on where it was. Only values stay in it.
        attention: where to write the `ATTENTION` table of the run's model; None: nowhere.
    """
    kept = folder / project.VALUES
    if not kept.exists():
        params = trial.params.model_copy(update={"seed": seed})
        model, matrix = folder / "model", folder / "embeddings"
        _train(trial, params, folder, model)
        if trial.control:
            write_matrix(model / "encoder", matrix, params, base=trial.system.base)
        else:
            inform_corpus(trial.system, model, matrix, params, MANIFEST)
        distributed.barrier()
        if distributed.is_first():
            if attention is not None:
                _write_attention(trial, params, model, attention)
            values = pl.concat([_measure(split, model, matrix, params) for split in project.JUDGED])
            partial = kept.with_suffix(".partial")
            values.select(pl.lit(seed, pl.Int64).alias("seed"), *values.columns).write_parquet(partial)
            publish(partial, kept)
            for part in (model, matrix, folder / ".work"):
                shutil.rmtree(part, ignore_errors=True)
    distributed.barrier()
    return pl.read_parquet(kept)


def depth_of(names: list[str]) -> int:
    """Passages a question that measures look at: the largest cutoff. Measures without one see as many."""
    return max(int(measure.params.get("cutoff", 1)) for measure in parse(names).values())


def _train(trial: Trial, params: Params, folder: Path, model: Path) -> None:
    if model.exists():
        return
    partial = folder / "model.partial"
    if trial.control:
        encoder, _ = train_control(params, folder)
    else:
        encoder, gnn, _ = train_gnn_encoder(trial.system, params, folder)
        if distributed.is_first():
            gnn.save(partial)
    if distributed.is_first():
        encoder.save(partial / "encoder")
        publish(partial, model)
    distributed.barrier()


def _measure(split: str, model: Path, matrix: Path, params: Params) -> pl.DataFrame:
    names = measured_names(params)
    encoder = load_encoder(model, params)
    questions = encoder.embed_queries(read_column(project.queries(split), "text").to_pylist())
    depth = min(depth_of(names), count_rows(project.PASSAGES))
    passages, _ = top_k(matrix, questions, depth, name="evidence.measures")
    qids, pids = (
        pl.Series(read_column(path, column))
        for path, column in ((project.queries(split), "qid"), (project.PASSAGES, "pid"))
    )
    values = measure_split(as_run(passages, qids, pids), split, names, params.evaluate)
    return values.select(pl.lit(split).alias("split"), *values.columns)


def _write_attention(trial: Trial, params: Params, model: Path, path: Path) -> None:
    """Of all passages that some question retrieved."""
    encoder = load_encoder(model, params)
    inform = open_informer(trial.system, model, encoder, params)
    base = trial.system.base
    cached = open_matrix(project.embeddings(base)) if keeps_base(model / "encoder", base) else None

    def parts() -> Iterator[pa.Table]:
        for first in range(0, len(inform.retrieved), PASSAGES_AT_A_TIME):
            rows = inform.retrieved[first : first + PASSAGES_AT_A_TIME]
            yield inform.explain(rows, _embeddings(encoder, cached, rows, params))

    write_table(path, ATTENTION, parts())


def _embeddings(
    encoder: DualEncoder, cached: NDArray[Any] | None, rows: NDArray[np.integer[Any]], params: Params
) -> NDArray[np.float32]:
    """h_p by the trained encoder, from M_de's matrix where that is the same. *Shape:* (b,) -> (b, d)."""
    if cached is not None:
        return gather(cached, rows).astype(np.float32)
    return embed_passages(encoder, open_passages(encoder), params.encoder.batch_tokens, rows)
