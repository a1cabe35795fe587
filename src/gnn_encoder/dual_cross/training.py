"""Training P_QG(q|d) on labelled pairs: the model reads the positive passage and learns to write its query."""

import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import torch
from torch import nn

from gnn_encoder.base.files import WORK
from gnn_encoder.base.matrix import Rows
from gnn_encoder.dual_cross.model import QueryGenerator
from gnn_encoder.dual_cross.warm_start import set_word_frequencies
from gnn_encoder.pipeline.params import Encoder, Generator
from gnn_encoder.text.batches import Batch
from gnn_encoder.text.encoder import allow_length
from gnn_encoder.text.pretrained import Source
from gnn_encoder.text.tokens import TextTokens, single_batch
from gnn_encoder.train.dual_encoder import BatchSampler, chunks, local_share
from gnn_encoder.train.loop import fit, sum_value, write_history

log = logging.getLogger(__name__)
BATCH = 32  # pairs of a step
FRESH_RATE = 3.0  # factor on the learning rate of `QueryGenerator.fresh_modules`
PAIRS_AT_A_TIME = 64  # pairs of one forward and backward pass; gradients add up over the batch


class PairTexts:
    """Relevant pairs as batches: passages to read, and queries to write."""

    def __init__(
        self,
        model: QueryGenerator,
        pairs: pl.DataFrame,
        queries: TextTokens,
        passages: TextTokens,
        *,
        query_length: int,
        passage_length: int,
    ) -> None:
        self._template, self._queries, self._passages = model.template, queries, passages
        self._query_rows, self._passage_rows = pairs["query"].to_numpy(), pairs["passage"].to_numpy()
        self._query_length, self._passage_length = query_length, passage_length

    def __len__(self) -> int:
        return len(self._query_rows)

    def batch(self, items: Rows) -> tuple[Batch, Batch]:
        """Passages and queries of some pairs, padded."""
        passages = single_batch(self._passages, self._passage_rows[items], self._template, self._passage_length)
        queries = single_batch(self._queries, self._query_rows[items], self._template, self._query_length)
        return passages, queries

    def token_counts(self, vocabulary: int) -> torch.Tensor:
        """How often each token occurs in the queries, over all pairs. *Shape:* (vocabulary,)."""
        counts = torch.zeros(vocabulary)
        for items in chunks(np.arange(len(self)), 4096):
            written = self.batch(items)[1]
            labels = written.input_ids[:, 1:][written.attention_mask[:, 1:] == 1]
            counts += torch.bincount(labels, minlength=vocabulary)
        return counts


class GeneratorTask:
    """Training by the mean negative log-likelihood of a query's token, over the labelled pairs."""

    def __init__(self, model: QueryGenerator, texts: PairTexts, *, epochs: float, batch_size: int, seed: int) -> None:
        self.modules: dict[str, nn.Module] = {"generator": model}
        self._model, self._texts = model, texts
        self._batches = BatchSampler(len(texts), epochs, batch_size, seed)
        model.train()

    def __len__(self) -> int:
        return len(self._batches)

    def step(self, number: int) -> float:
        """Forward and backward of one batch of pairs."""
        items = local_share(self._batches.items(number))
        parts = [self._texts.batch(part) for part in chunks(items, PAIRS_AT_A_TIME)]
        tokens = sum(int(queries.attention_mask[:, 1:].sum()) for _, queries in parts)
        everywhere = sum_value(tokens)
        total = 0.0
        for passages, queries in parts:
            loss = self._model.loss(passages, queries) / everywhere
            loss.backward()
            total += loss.item()
        return total

    def evaluate(self) -> float:
        """Never called: the generator trains for all its epochs and keeps its last weights."""
        raise NotImplementedError


def parameter_groups(model: QueryGenerator, learning_rate: float) -> list[dict[str, object]]:
    """Parameter groups of AdamW: the model's `fresh_modules` learn FRESH_RATE times as fast as all other parameters.

    The output layer shares the embeddings' weights, which are pretrained and learn at `learning_rate`.
    """
    embeddings = {id(parameter) for parameter in model.model.get_input_embeddings().parameters()}
    fresh = {id(parameter) for module in model.fresh_modules() for parameter in module.parameters()} - embeddings
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return [
        {"params": [one for one in learning if id(one) not in fresh], "lr": learning_rate},
        {"params": [one for one in learning if id(one) in fresh], "lr": learning_rate * FRESH_RATE},
    ]


def make_generator(
    section: Generator, base: Encoder, texts: Callable[[QueryGenerator], PairTexts], folder: Path, *, seed: int
) -> None:
    """Write the generator that section `dual_cross.generator` names, or else one that is trained on labelled pairs.

    No dev score stops training or selects weights.

    Args:
        base: section `encoder`, whose model the trained one starts from.
        texts: opens the labelled pairs of the training queries as a model reads them.
        folder: where it goes, and where training keeps what a killed run resumes from.
    """
    if section.model is not None:
        QueryGenerator.load(Source(section.model), precision=base.precision).save(folder)
        log.info("%s: used as it is, nothing is trained", section.model)
        return
    model = QueryGenerator.from_encoder(Source.of(base), base, seed=seed)
    lengths = {"encoder.passage_length": base.passage_length, "dual_cross.generator.query_length": section.query_length}
    for name, length in lengths.items():
        allow_length(model.model.encoder, model.tokenizer, name, length)
    labelled = texts(model)
    model.freeze_lower(base.frozen_layers)
    set_word_frequencies(model.model, labelled.token_counts(model.model.config.decoder.vocab_size))
    task = GeneratorTask(model, labelled, epochs=section.epochs, batch_size=BATCH, seed=seed)
    groups = parameter_groups(model, section.learning_rate)
    history = fit(task, groups, folder / WORK, name="generator", title="generator", seed=seed)
    model.save(folder)
    write_history(folder / "history.csv", history)
