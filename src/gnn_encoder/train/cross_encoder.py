"""Training M_ce (section 3.4) on labelled positives and candidates, pair by pair."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import torch
import torch.nn.functional as F
from torch import nn

from gnn_encoder.base.judgements import relevant_pairs
from gnn_encoder.base.tables import DEV_CANDIDATES, read_table
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params, TrainCrossEncoder
from gnn_encoder.text.batches import Inputs, encode_by_length
from gnn_encoder.text.corpus import open_passages, open_queries
from gnn_encoder.text.cross_encoder import CrossEncoder
from gnn_encoder.text.encoder import allow_length
from gnn_encoder.text.tokens import TextTokens
from gnn_encoder.train.candidates import read_ranks
from gnn_encoder.train.dev import reranking_score
from gnn_encoder.train.examples import (
    BatchSampler,
    Examples,
    examples_from_candidates,
    local_part,
    open_examples,
    stream,
)
from gnn_encoder.train.loop import fit_evenly

PAIRS_AT_A_TIME = 64  # pairs of one forward and backward pass; gradients add up over the batch


@dataclass
class CrossEncoderTask:
    """Each query with one positive and `negatives` candidates, by the binary cross-entropy of each pair's score."""

    model: CrossEncoder
    queries: TextTokens
    passages: TextTokens
    examples: Examples
    settings: TrainCrossEncoder
    seed: int
    dev: tuple[pl.DataFrame, TextTokens]  # the DEV_CANDIDATES table of its dev score, and tokens of the dev queries
    batch_tokens: int

    def __post_init__(self) -> None:
        self.modules: dict[str, nn.Module] = {"cross_encoder": self.model}
        self.steps = self.settings.steps
        self._batches = BatchSampler(len(self.examples), self.settings.batch_size, self.seed)
        self.model.train()

    def step(self, number: int) -> float:
        """Forward and backward of one batch of pairs."""
        batch = self._batches.draw(self.examples, number, self.settings.negatives)
        # A query without candidates gets random passages; those that happen to be relevant are left out.
        is_read = ~self.examples.is_spared(batch.asked, batch.passages)
        is_read[: len(batch.queries)] = True
        _, places = local_part(batch)
        read, of, total = places[is_read[places]], int(is_read.sum()), 0.0
        for rows in np.split(read, range(PAIRS_AT_A_TIME, len(read), PAIRS_AT_A_TIME)):
            texts = self.queries, batch.asked[rows], self.passages, batch.passages[rows]
            pairs = Inputs.pairs(*texts, self.model.template, self.settings.max_length).batch()
            logits = encode_by_length(self.model.logits, pairs, self.batch_tokens)
            labels = torch.from_numpy((rows < len(batch.queries)).astype(np.float32)).to(logits.device)
            share = F.binary_cross_entropy_with_logits(logits, labels, reduction="sum") / of
            share.backward()
            total += share.item()
        return total

    def evaluate(self) -> float:
        """RR@10 of the dev sample by reranking."""
        candidates, queries = self.dev
        query, passage = (candidates[name].to_numpy() for name in ("query", "passage"))
        pairs = Inputs.pairs(queries, query, self.passages, passage, self.model.template, self.settings.max_length)
        return reranking_score(self.model, candidates, pairs, self.batch_tokens)


def train_cross_encoder(params: Params, folder: Path) -> None:
    """Train on labelled pairs against mined candidates, and write the model."""
    section, settings = "train_cross_encoder", params.train_cross_encoder
    pairs, found = relevant_pairs(*project.tables("train")), read_ranks(project.CANDIDATES, first=settings.range_min)
    queries = project.queries("train")
    examples = open_examples(examples_from_candidates(pairs, found), queries)
    base = params.encoder
    model = CrossEncoder.from_pretrained(settings.model or base.model, base, seed=params.seed)
    allow_length(model.model, model.tokenizer, f"{section}.max_length", settings.max_length)
    model.freeze_lower(base.frozen_layers)
    texts = open_queries(queries, model), open_passages(model)
    dev = read_table(project.DEV_CANDIDATES, DEV_CANDIDATES), open_queries(project.queries("dev"), model)
    task = CrossEncoderTask(model, *texts, examples, settings, stream(params.seed, section), dev, base.batch_tokens)
    fit_evenly(task, model, settings.learning_rate, params, folder, name="cross-encoder", title="M_ce")
