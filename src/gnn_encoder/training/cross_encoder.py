"""Training M_ce on labelled positives and candidates: pairs one by one, or the passages of a query together."""

from functools import partial
from pathlib import Path
from typing import Literal, cast

import numpy as np
import polars as pl
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import nn
from transformers import PreTrainedModel

from gnn_encoder.core import distributed
from gnn_encoder.core.judgements import contains, pair_counts, relevant_pairs
from gnn_encoder.core.rows import Rows
from gnn_encoder.core.storage.scratch import WORK
from gnn_encoder.core.storage.tables import count_rows, read_candidates
from gnn_encoder.encoding.batching import encode_by_length
from gnn_encoder.encoding.texts import open_passages, open_queries
from gnn_encoder.encoding.tokens import TextTokens, pair_batch
from gnn_encoder.models.cross_encoder import CrossEncoder
from gnn_encoder.models.pretrained import Source, check_length
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.training.contrastive import chunks, local_share
from gnn_encoder.training.dev import read_dev_candidates
from gnn_encoder.training.dev_score import DevScore, reranking_score
from gnn_encoder.training.examples import (
    Examples,
    TrainingBatch,
    draw_batch,
    epoch_batches,
    examples_from_candidates,
    steps_of,
    stream,
    to_examples,
)
from gnn_encoder.training.history import write_history
from gnn_encoder.training.loop import Settings, evenly, fit, parameter_group
from gnn_encoder.training.losses import contrastive_loss
from gnn_encoder.training.params import TrainCrossEncoder

Bools = NDArray[np.bool_]
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
    first, last = settings.range_min, settings.range_max or int(candidates["rank"].max()) + 1  # type: ignore[arg-type]
    candidates = candidates.filter(pl.col("rank").is_between(first, last, closed="left"))
    examples = to_examples(examples_from_candidates(pairs, candidates), count_rows(project.PASSAGES))
    counts = pair_counts(project.queries("train"), project.COUNTS, project.PASSAGES)
    base = params.encoder
    same = settings.model in (None, base.model)
    source = Source(settings.model or base.model, base.revision if same else None, base.trust_remote_code)
    model = CrossEncoder.from_pretrained(source, base, pooling=settings.pooling, seed=params.seed)
    check_length(cast(PreTrainedModel, model.model), f"{section}.max_length", settings.max_length)
    passages, asked, known = open_passages(model), open_queries(project.queries("dev"), model), read_dev_candidates()
    limits = {"max_length": settings.max_length, "batch_tokens": base.batch_tokens}
    task = CrossEncoderTask(
        model,
        open_queries(project.queries("train"), model),
        passages,
        examples.weighed(counts),
        max_length=settings.max_length,
        loss=settings.loss,
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        negatives=settings.negatives,
        seed=stream(params.seed, section),
        score=partial(reranking_score, model, known, asked, passages, **limits),
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
    """Training of a cross-encoder: each query with one positive and `negatives` candidates.

    Pointwise, a pair's loss is the binary cross-entropy of its score, so that scores are probabilities. Listwise, a
    query's loss is the cross-entropy of its positive in the softmax over its passages' logits, which says how passages
    compare, and not how relevant each of them is.

    Args:
        score: its dev score.
    """

    def __init__(
        self,
        model: CrossEncoder,
        queries: TextTokens,
        passages: TextTokens,
        examples: Examples,
        *,
        max_length: int,
        loss: Literal["pointwise", "listwise"],
        epochs: float,
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
        self._batch_tokens, self._loss = batch_tokens, loss
        self._per_epoch = len(self._epoch(0))
        self._epochs = epochs
        model.train()

    def __len__(self) -> int:
        return steps_of(self._epochs, self._per_epoch)

    def step(self, number: int) -> float:
        """Forward and backward of one batch of pairs."""
        epoch, within = divmod(number, self._per_epoch)
        items = local_share(self._epoch(epoch)[within])
        generator = np.random.default_rng([self._seed, number, distributed.rank()])
        batch = draw_batch(self._examples, items, self._negatives, generator)
        # A query without candidates gets random passages; those that happen to be relevant are left out.
        left_out = contains(self._examples.known, batch.asked * self._examples.n_passages + batch.passages)
        left_out[: len(items)] = False
        return (self._pointwise if self._loss == "pointwise" else self._listwise)(batch, left_out)

    def _pointwise(self, batch: TrainingBatch, left_out: Bools) -> float:
        rows = np.flatnonzero(~left_out)
        labels = torch.from_numpy((rows < len(batch.queries)).astype(np.float32))
        losses = []
        for part in chunks(np.arange(len(rows)), PAIRS_AT_A_TIME):
            logits = self._logits(batch, rows[part])
            loss = F.binary_cross_entropy_with_logits(logits, labels[part].to(logits.device), reduction="sum")
            losses.append(self._backward(loss, of=len(rows)))
        return sum(losses)

    def _listwise(self, batch: TrainingBatch, left_out: Bools) -> float:
        count = len(batch.queries)
        rows = np.arange(len(batch.passages))
        lists = np.column_stack([rows[:count], rows[count:].reshape(count, self._negatives)])
        losses = []
        for part in chunks(np.arange(count), max(1, PAIRS_AT_A_TIME // lists.shape[1])):
            logits = self._logits(batch, lists[part].reshape(-1)).view(len(part), -1)
            positive = torch.zeros(len(part), dtype=torch.long, device=logits.device)
            masked = torch.from_numpy(left_out[lists[part]]).to(logits.device)
            losses.append(self._backward(contrastive_loss(logits, positive, masked), of=count))
        return sum(losses)

    def _logits(self, batch: TrainingBatch, rows: Rows) -> torch.Tensor:
        """Logits of some of the batch's pairs. *Shape:* (n,) -> (n,)."""
        texts = self._queries, batch.asked[rows], self._passages, batch.passages[rows]
        pairs = pair_batch(*texts, self._model.template, self._max_length)
        return encode_by_length(self._model.logits, pairs, self._batch_tokens)

    @staticmethod
    def _backward(loss: torch.Tensor, of: int) -> float:
        """Add the gradient of a part of a sum over `of` items of this rank's."""
        share = loss / (of * distributed.world_size())
        share.backward()
        return share.item()

    def _epoch(self, epoch: int) -> list[Rows]:
        return epoch_batches(np.arange(len(self._examples)), self._batch_size, [self._seed, epoch])
