"""Training M_ce on labelled positives and candidates, pair by pair."""

from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
import polars as pl
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel

from gnn_encoder.base.judgements import Identical, contains, pair_counts, pair_keys, relevant_pairs
from gnn_encoder.base.matrix import Rows
from gnn_encoder.base.tables import DEV_CANDIDATES, count_rows, read_table
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params, TrainCrossEncoder
from gnn_encoder.text.batches import encode_by_length, text_batch
from gnn_encoder.text.corpus import open_passages, open_queries
from gnn_encoder.text.cross_encoder import CrossEncoder
from gnn_encoder.text.encoder import allow_length, freeze_lower
from gnn_encoder.text.pretrained import Source
from gnn_encoder.text.tokens import TextTokens
from gnn_encoder.train.candidates import read_top
from gnn_encoder.train.dev import reranking_score
from gnn_encoder.train.examples import BatchSampler, Examples, Ragged, TrainingBatch, chunks, local_part, stream
from gnn_encoder.train.loop import fit_evenly

PAIRS_AT_A_TIME = 64  # pairs of one forward and backward pass; gradients add up over the batch


def candidate_examples(
    pairs: pl.DataFrame, candidates: Path, range_min: int, n_passages: int, identical: Identical
) -> Examples:
    """Labelled `pairs` (query, passage; sorted) as positives; others of the `candidates`, from a rank on, as negatives.

    No lists are made of the CANDIDATES table, which may have hundreds of millions of rows.
    """
    found = read_top(candidates, None).filter(pl.col("rank") >= range_min)
    query, passage = found["query"].to_numpy(), found["passage"].to_numpy()
    queries, sizes = np.unique(pairs["query"].to_numpy().astype(np.int64), return_counts=True)
    known = pair_keys(pairs, n_passages)
    chosen = contains(queries, query) & ~contains(known, query.astype(np.int64) * n_passages + passage)
    counts = np.bincount(np.searchsorted(queries, query[chosen]), minlength=len(queries))
    return Examples(
        queries=queries,
        positives=Ragged.of_sizes(pairs["passage"].to_numpy().astype(np.int64), sizes),
        negatives=Ragged.of_sizes(passage[chosen], counts),
        known=known,
        n_passages=n_passages,
        identical=identical,
    )


class CrossEncoderTask:
    """Training of a cross-encoder: each query with one positive and `negatives` candidates.

    A pair's loss is the binary cross-entropy of its score, so that scores are probabilities. `dev` is the
    DEV_CANDIDATES table of its dev score, and tokens of the dev queries.
    """

    def __init__(
        self,
        model: CrossEncoder,
        queries: TextTokens,
        passages: TextTokens,
        examples: Examples,
        settings: TrainCrossEncoder,
        *,
        seed: int,
        dev: tuple[pl.DataFrame, TextTokens],
        batch_tokens: int,
    ) -> None:
        self.modules: dict[str, nn.Module] = {"cross_encoder": model}
        self.evaluate = partial(
            reranking_score, model, *dev, passages, max_length=settings.max_length, batch_tokens=batch_tokens
        )
        self._model, self._queries, self._passages, self._examples = model, queries, passages, examples
        self._settings, self._batch_tokens = settings, batch_tokens
        self._batches = BatchSampler(len(examples), settings.steps, settings.batch_size, seed)
        model.train()

    def __len__(self) -> int:
        return len(self._batches)

    def step(self, number: int) -> float:
        """Forward and backward of one batch of pairs."""
        batch = self._batches.draw(self._examples, number, self._settings.negatives)
        # A query without candidates gets random passages; those that happen to be relevant are left out.
        left_out = self._examples.is_spared(batch.asked, batch.passages)
        left_out[: len(batch.queries)] = False
        _, places = local_part(batch)
        rows, of, total = places[~left_out[places]], int((~left_out).sum()), 0.0
        for part in chunks(rows, PAIRS_AT_A_TIME):
            share = self._loss(batch, part) / of
            share.backward()
            total += share.item()
        return total

    def _loss(self, batch: TrainingBatch, rows: Rows) -> Tensor:
        """The sum over some of the batch's pairs. *Shape:* (n,)."""
        texts = self._queries, batch.asked[rows], self._passages, batch.passages[rows]
        pairs = text_batch(*texts, self._model.template, self._settings.max_length)
        logits = encode_by_length(self._model.logits, pairs, self._batch_tokens)
        labels = torch.from_numpy((rows < len(batch.queries)).astype(np.float32)).to(logits.device)
        return F.binary_cross_entropy_with_logits(logits, labels, reduction="sum")


def train_cross_encoder(settings: TrainCrossEncoder, section: str, params: Params, folder: Path, title: str) -> None:
    """Train on labelled pairs against mined candidates, and write the model and its learning curve.

    `section` of params.yaml holds `settings`; `title` is what is trained, in the log.
    """
    queries, n_passages = project.queries("train"), count_rows(project.PASSAGES)
    pairs = relevant_pairs(queries, project.qrels("train"), project.PASSAGES)
    identical = Identical.read(project.IDENTICAL, "train")
    examples = candidate_examples(pairs, project.CANDIDATES, settings.range_min, n_passages, identical)
    base, is_same = params.encoder, settings.model in (None, params.encoder.model)
    source = Source(settings.model or base.model, base.revision if is_same else None, base.trust_remote_code)
    model = CrossEncoder.from_pretrained(source, base, seed=params.seed)
    allow_length(cast(PreTrainedModel, model.model), model.tokenizer, f"{section}.max_length", settings.max_length)
    if base.frozen_layers:
        freeze_lower(model.model, base.frozen_layers)
    task = CrossEncoderTask(
        model,
        open_queries(queries, model),
        open_passages(model),
        examples.weighed(pair_counts(queries, project.COUNTS, project.PASSAGES)),
        settings,
        seed=stream(params.seed, section),
        dev=(read_table(project.DEV_CANDIDATES, DEV_CANDIDATES), open_queries(project.queries("dev"), model)),
        batch_tokens=params.encoder.batch_tokens,
    )
    fit_evenly(task, model, settings.learning_rate, params, folder, name="cross-encoder", title=title)
