"""Trainings of encoders on artifacts where they lie."""

from pathlib import Path

import polars as pl

from gnn_encoder.base.files import WORK
from gnn_encoder.base.judgements import Identical, pair_counts, relevant_pairs
from gnn_encoder.base.tables import DEV_CANDIDATES, count_rows, iterate_candidates, read_table
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.opening import open_passages, open_queries
from gnn_encoder.pipeline.params import Contrastive, Params, TrainCrossEncoder
from gnn_encoder.text.cross_encoder import CrossEncoder
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.text.tokens import TextTokens
from gnn_encoder.training.contrastive import ContrastiveTask, Texts
from gnn_encoder.training.cross_encoder import CrossEncoderTask, candidate_examples, new_cross_encoder
from gnn_encoder.training.dev import DevSample, pooled_sample
from gnn_encoder.training.dev_score import Views
from gnn_encoder.training.examples import Examples, stream
from gnn_encoder.training.loop import Task, fit_evenly, write_history


def logged_counts(queries: Path) -> pl.DataFrame:
    """How often the labelled pairs of a table of queries were logged: columns query, passage, count."""
    return pair_counts(queries, project.COUNTS, project.PASSAGES)


def train_cross_encoder(settings: TrainCrossEncoder, section: str, params: Params, folder: Path, title: str) -> None:
    """Train on labelled pairs against mined candidates, and write the model and its learning curve.

    Args:
        section: the section of params.yaml that holds `settings`.
        title: what is trained, in the log.
    """
    queries, n_passages = project.queries("train"), count_rows(project.PASSAGES)
    pairs = relevant_pairs(queries, project.qrels("train"), project.PASSAGES)
    candidates, identical = iterate_candidates(project.CANDIDATES), Identical.read(project.IDENTICAL, "train")
    examples = candidate_examples(pairs, candidates, settings, n_passages, identical)
    model = new_cross_encoder(settings, params.encoder, section, params.seed)
    task = CrossEncoderTask(
        model,
        open_queries(queries, model),
        open_passages(model),
        examples.weighed(logged_counts(queries)),
        settings,
        seed=stream(params.seed, section),
        dev=(read_table(project.DEV_CANDIDATES, DEV_CANDIDATES), open_queries(project.queries("dev"), model)),
        batch_tokens=params.encoder.batch_tokens,
    )
    _fit(task, model, settings, params, folder, name="cross-encoder", title=title)


def train_dual_encoder(
    encoder: DualEncoder,
    texts: Texts,
    examples: Examples,
    section: str,
    params: Params,
    folder: Path,
    *,
    title: str,
    views: Views | None = None,
    alpha: float = 0.0,
) -> None:
    """Train a dual-encoder, and write the weights of the best dev score and its learning curve.

    Args:
        section: the section of params.yaml that steers the training.
        title: what is trained, in the log.
        views, alpha: as in `ContrastiveTask`.
    """
    settings = params.value(section)
    encoder.freeze_lower(params.encoder.frozen_layers)
    seed, dev = stream(params.seed, section), _open_dev(encoder)
    task = ContrastiveTask(encoder, texts, examples, settings, seed=seed, dev=dev, views=views, alpha=alpha)
    _fit(task, encoder, settings, params, folder, name="contrastive", title=title)


def _open_dev(encoder: DualEncoder) -> tuple[DevSample, TextTokens]:
    """The dev sample of a dual-encoder, and the dev queries as it reads them."""
    own = Identical.read(project.IDENTICAL, "dev").own
    sample = pooled_sample(read_table(project.DEV_CANDIDATES, DEV_CANDIDATES), count_rows(project.PASSAGES), own)
    return sample, open_queries(project.queries("dev"), encoder)


def _fit(
    task: Task,
    model: CrossEncoder | DualEncoder,
    settings: TrainCrossEncoder | Contrastive,
    params: Params,
    folder: Path,
    *,
    name: str,
    title: str,
) -> None:
    evaluations, work = params.dev.evaluations, folder / WORK
    history = fit_evenly(task, model, work, settings, name=name, title=title, seed=params.seed, evaluations=evaluations)
    model.save(folder)
    write_history(folder / "history.csv", history)
