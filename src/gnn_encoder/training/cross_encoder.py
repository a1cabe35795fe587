"""Training M_ce by binary cross-entropy on labelled positives and candidates, so that scores are probabilities."""

from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
import polars as pl
import torch
import torch.nn.functional as F
from torch import nn
from transformers import PreTrainedModel

from gnn_encoder.core import distributed, project
from gnn_encoder.core.judgements import contains, pair_counts, relevant_pairs
from gnn_encoder.core.params import Params, TrainCrossEncoder
from gnn_encoder.core.stage import WORK
from gnn_encoder.core.storage.tables import count_rows, read_candidates
from gnn_encoder.encoding.batching import encode_by_length
from gnn_encoder.encoding.texts import open_passages, open_queries
from gnn_encoder.encoding.tokens import TextTokens, pair_batch
from gnn_encoder.models.cross_encoder import CrossEncoder
from gnn_encoder.models.pretrained import Source, check_length
from gnn_encoder.training.contrastive import local_share
from gnn_encoder.training.dev import read_dev_candidates
from gnn_encoder.training.dev_score import DevScore, reranking_score
from gnn_encoder.training.examples import (
    Examples,
    Rows,
    draw_batch,
    epoch_batches,
    examples_from_candidates,
    to_examples,
)
from gnn_encoder.training.history import write_history
from gnn_encoder.training.loop import Settings, evenly, fit, parameter_group

PAIRS_AT_A_TIME = 64  # pairs of one forward and backward pass; gradients add up over the batch


def train_cross_encoder(settings: TrainCrossEncoder, section: str, params: Params, scratch: Path, title: str) -> None:
    """Train on labelled positives against mined candidates.

    Writes the model of the best dev score and `history.csv` into `scratch`.

    Args:
        section: the section of params.yaml that holds `settings`, named in errors.
        title: what is trained, in the log.
    """
    pairs = relevant_pairs(project.queries("train"), project.qrels("train"), project.PASSAGES)
    candidates = pl.DataFrame(read_candidates(project.CANDIDATES))
    examples = to_examples(examples_from_candidates(pairs, candidates), count_rows(project.PASSAGES))
    counts = pair_counts(project.queries("train"), project.COUNTS, project.PASSAGES)
    base = params.encoder
    same = settings.model in (None, base.model)
    source = Source(settings.model or base.model, base.revision if same else None, base.trust_remote_code)
    model = CrossEncoder.from_pretrained(source, base, seed=params.seed)
    check_length(cast(PreTrainedModel, model.model), f"{section}.max_length", settings.max_length)
    passages = open_passages(model)
    task = CrossEncoderTask(
        model,
        open_queries(project.queries("train"), model),
        passages,
        examples.weighed(counts),
        max_length=settings.max_length,
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        negatives=settings.negatives,
        seed=params.seed,
        score=partial(
            reranking_score,
            model,
            read_dev_candidates(),
            open_queries(project.queries("dev"), model),
            passages,
            max_length=settings.max_length,
            batch_tokens=base.batch_tokens,
        ),
        batch_tokens=base.batch_tokens,
    )
    how = Settings(
        name="cross-encoder",
        title=title,
        warmup=settings.warmup,
        seed=params.seed,
        evaluate_every=evenly(len(task), params.dev.evaluations),
        patience=params.dev.evaluations,
    )
    history = fit(task, [parameter_group(model, settings.learning_rate)], how, scratch / WORK)
    model.save(scratch)
    write_history(scratch / "history.csv", history)


class CrossEncoderTask:
    """Training of a cross-encoder: each query with one positive and `negatives` candidates. `score`: its dev score."""

    def __init__(
        self,
        model: CrossEncoder,
        queries: TextTokens,
        passages: TextTokens,
        examples: Examples,
        *,
        max_length: int,
        epochs: int,
        batch_size: int,
        negatives: int,
        seed: int,
        score: DevScore,
        batch_tokens: int,
    ) -> None:
        self.modules: dict[str, nn.Module] = {"cross_encoder": model}
        self.evaluate = score
        self._model, self._queries, self._passages, self._examples = model, queries, passages, examples
        self._max_length, self._negatives, self._batch_size, self._seed = max_length, negatives, batch_size, seed
        self._batch_tokens = batch_tokens
        self._per_epoch = len(self._epoch(0))
        self._epochs = epochs
        model.train()

    def __len__(self) -> int:
        return self._epochs * self._per_epoch

    def step(self, number: int) -> float:
        """Forward and backward of one batch of pairs."""
        epoch, within = divmod(number, self._per_epoch)
        items = local_share(self._epoch(epoch)[within])
        generator = np.random.default_rng([self._seed, number, distributed.rank()])
        batch = draw_batch(self._examples, items, self._negatives, generator)
        queries = np.concatenate([batch.queries, np.repeat(batch.queries, self._negatives)])
        labels = (np.arange(len(queries)) < len(items)).astype(np.float32)
        # A query without candidates gets random passages; those that happen to be relevant are left out.
        keys = queries * self._examples.n_passages + batch.passages
        relevant = contains(self._examples.known, keys)
        kept = (labels == 1) | ~relevant
        return self._pairs(queries[kept], batch.passages[kept], torch.from_numpy(labels[kept]))

    def _pairs(self, queries: Rows, passages: Rows, labels: torch.Tensor) -> float:
        total = 0.0
        count = len(queries) * distributed.world_size()
        for first in range(0, len(queries), PAIRS_AT_A_TIME):
            part = slice(first, first + PAIRS_AT_A_TIME)
            pairs = pair_batch(
                self._queries, queries[part], self._passages, passages[part], self._model.template, self._max_length
            )
            logits = encode_by_length(self._model.logits, pairs, self._batch_tokens)
            loss = F.binary_cross_entropy_with_logits(logits, labels[part].to(logits.device), reduction="sum") / count
            loss.backward()
            total += loss.item()
        return total

    def _epoch(self, epoch: int) -> list[Rows]:
        return epoch_batches(np.arange(len(self._examples)), self._batch_size, [self._seed, epoch])
