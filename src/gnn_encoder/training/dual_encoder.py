"""Training a dual-encoder, and writing its model folder and learning curve."""

from functools import partial
from pathlib import Path

from gnn_encoder.core.judgements import pair_counts
from gnn_encoder.core.storage.scratch import WORK
from gnn_encoder.encoding.corpus import alone
from gnn_encoder.encoding.texts import open_passages, open_queries
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.training.contrastive import QUERY_CENTRIC, ContrastiveTask, Generated, PassageCentric, Texts
from gnn_encoder.training.dev import read_dev_sample
from gnn_encoder.training.dev_score import DevScore, Views, retrieval_score
from gnn_encoder.training.examples import Examples, stream
from gnn_encoder.training.history import write_history
from gnn_encoder.training.loop import Settings, evenly, fit, parameter_group
from gnn_encoder.training.params import Contrastive


def train_dual_encoder(
    encoder: DualEncoder,
    examples: Examples,
    params: Params,
    scratch: Path,
    *,
    section: str,
    queries: Path,
    title: str,
    beside: Generated | None = None,
    plain_share: float = 0.0,
    views: Views | None = None,
    passage_centric: PassageCentric = QUERY_CENTRIC,
) -> None:
    """Train by Eq. 2, or by PAIR's Eq. 6, and write the model of the best dev score and `history.csv` into `scratch`.

    Args:
        section: the section of params.yaml that it trains with; trainings that share it draw the same batches.
        queries: the table whose rows `examples` refer to.
        title: what is trained, in the log.
        beside, plain_share: as in `Texts`.
        views: what E_P reads in search; None: passages alone.
        passage_centric: PAIR's Eq. 6; by default Eq. 2 alone.
    """
    settings: Contrastive = params.value(section)
    encoder.freeze_lower(params.encoder.frozen_layers)
    examples = examples.weighed(pair_counts(queries, project.COUNTS, project.PASSAGES))
    tables = open_queries(queries, encoder), open_passages(encoder)
    task = ContrastiveTask(
        encoder,
        Texts(encoder, *tables, beside, plain_share=plain_share, batch_tokens=params.encoder.batch_tokens),
        examples,
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        negatives=settings.negatives,
        chunk_size=settings.chunk_size,
        seed=stream(params.seed, section),
        score=_dev_score(encoder, params, examples.n_passages, views),
        passage_centric=passage_centric,
    )
    how = Settings(
        name="contrastive",
        title=title,
        warmup=settings.warmup,
        seed=params.seed,
        evaluate_every=evenly(len(task), params.dev.evaluations),
        patience=params.dev.evaluations,
    )
    history = fit(task, [parameter_group(encoder, settings.learning_rate)], how, scratch / WORK)
    encoder.save(scratch)
    write_history(scratch / "history.csv", history)


def _dev_score(encoder: DualEncoder, params: Params, n_passages: int, views: Views | None) -> DevScore:
    read = views or Views(inputs=alone(encoder, open_passages(encoder)))
    queries, sample = open_queries(project.queries("dev"), encoder), read_dev_sample(n_passages, params.dev)
    return partial(retrieval_score, encoder, sample, queries, read, params.encoder.batch_tokens)
