"""Training a dual-encoder, and writing its model folder and learning curve."""

from pathlib import Path

from gnn_encoder.core import project
from gnn_encoder.core.judgements import pair_counts
from gnn_encoder.core.params import Contrastive, Params
from gnn_encoder.core.stage import WORK
from gnn_encoder.encoding.texts import open_passages, open_queries
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.training.contrastive import ContrastiveTask, Generated, Texts
from gnn_encoder.training.examples import Examples
from gnn_encoder.training.history import write_history
from gnn_encoder.training.loop import Settings, fit, parameter_group


def train_dual_encoder(
    encoder: DualEncoder,
    examples: Examples,
    settings: Contrastive,
    params: Params,
    scratch: Path,
    *,
    queries: Path,
    beside: Generated | None = None,
    alpha: float = 0.0,
) -> None:
    """Train by Eq. 2, or by PAIR's Eq. 6, and write the model and `history.csv` into `scratch`.

    Args:
        queries: the table whose rows `examples` refer to.
        beside: as in `Texts`.
        alpha: weight of the passage-centric loss (PAIR Eq. 6); 0: Eq. 2 alone.
    """
    encoder.freeze_lower(params.encoder.frozen_layers)
    examples = examples.weighed(pair_counts(queries, project.COUNTS, project.PASSAGES))
    task = ContrastiveTask(
        encoder,
        Texts(encoder, open_queries(queries, encoder), open_passages(encoder), beside),
        examples,
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        negatives=settings.negatives,
        chunk_size=settings.chunk_size,
        seed=params.seed,
        alpha=alpha,
    )
    how = Settings(name="contrastive", warmup=settings.warmup, seed=params.seed)
    history = fit(task, [parameter_group(encoder, settings.learning_rate)], how, scratch / WORK)
    encoder.save(scratch)
    write_history(scratch / "history.csv", history)
