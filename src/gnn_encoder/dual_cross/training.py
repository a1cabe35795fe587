"""Training P_QG(q|d) on labelled pairs: the model reads the positive passage and learns to write its query."""

import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import torch
from torch import nn

from gnn_encoder.core import distributed
from gnn_encoder.core.rows import Rows
from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.core.storage.scratch import WORK
from gnn_encoder.dual_cross.model import QueryGenerator
from gnn_encoder.dual_cross.params import Generator
from gnn_encoder.dual_cross.warm_start import set_word_frequencies
from gnn_encoder.encoding.tokens import TextTokens, single_batch
from gnn_encoder.models.batch import Batch
from gnn_encoder.models.params import Encoder
from gnn_encoder.models.pretrained import Source, check_length
from gnn_encoder.training.collectives import sum_value
from gnn_encoder.training.contrastive import Batches, chunks
from gnn_encoder.training.loop import History, Settings, fit, parameter_group, write_history

log = logging.getLogger(__name__)
FRESH_RATE = 3.0  # factor on the learning rate of `QueryGenerator.fresh_modules`
PAIRS_AT_A_TIME = 64  # pairs of one forward and backward pass; gradients add up over the batch


class PairTexts:
    """Relevant pairs of a split as batches: passages to read, and queries to write."""

    def __init__(
        self,
        model: QueryGenerator,
        pairs: pl.DataFrame,
        queries: TextTokens,
        passages: TextTokens,
        section: Generator,
    ) -> None:
        self._template, self._queries, self._passages = model.template, queries, passages
        self._query_rows, self._passage_rows = pairs["query"].to_numpy(), pairs["passage"].to_numpy()
        self._query_length, self._passage_length = section.query_length, section.passage_length

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
        self._batches = Batches(len(texts), epochs, batch_size, seed)
        model.train()

    def __len__(self) -> int:
        return len(self._batches)

    def step(self, number: int) -> float:
        """Forward and backward of one batch of pairs."""
        parts = [self._texts.batch(items) for items in chunks(self._batches.share(number), PAIRS_AT_A_TIME)]
        tokens = sum(int(queries.attention_mask[:, 1:].sum()) for _, queries in parts)
        everywhere = sum_value(tokens)
        total = 0.0
        for passages, queries in parts:
            loss = self._model.loss(passages, queries)[0] / everywhere
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
    fresh = parameter_group(nn.ModuleList(model.fresh_modules()), learning_rate * FRESH_RATE)
    fresh["params"] = [parameter for parameter in fresh["params"] if id(parameter) not in embeddings]
    known = {id(parameter) for parameter in fresh["params"]}
    rest = parameter_group(model, learning_rate)
    rest["params"] = [parameter for parameter in rest["params"] if id(parameter) not in known]
    return [rest, fresh]


@torch.inference_mode()
def mean_loss(model: QueryGenerator, texts: PairTexts) -> float:
    """Mean negative log-likelihood of a query's token over all pairs, in nats."""
    model.eval()
    total, tokens = 0.0, 0
    for items in chunks(np.arange(len(texts)), PAIRS_AT_A_TIME):
        loss, count = model.loss(*texts.batch(items))
        total, tokens = total + loss.item(), tokens + count
    return total / tokens


def train_generator(
    model: QueryGenerator, texts: PairTexts, section: Generator, folder: Path, *, seed: int, frozen_layers: int
) -> History:
    """Train a warm-started model on labelled pairs. No dev score stops training or selects weights.

    Args:
        folder: scratch folder of checkpoints; if they are there, training resumes.
        frozen_layers: how many of the encoder's lowest layers do not learn.
    """
    check_length(model.model.encoder, "dual_cross.generator.passage_length", section.passage_length)
    check_length(model.model.encoder, "dual_cross.generator.query_length", section.query_length)
    model.freeze_lower(frozen_layers)
    set_word_frequencies(model.model, texts.token_counts(model.model.config.decoder.vocab_size))
    task = GeneratorTask(model, texts, epochs=section.epochs, batch_size=section.batch_size, seed=seed)
    how = Settings(name="generator", title="generator", warmup=section.warmup, seed=seed)
    return fit(task, parameter_groups(model, section.learning_rate), how, folder)


def make_generator(
    section: Generator, base: Encoder, texts: Callable[[QueryGenerator, str], PairTexts], folder: Path, *, seed: int
) -> None:
    """Write the generator that section `dual_cross.generator` names, or else one that is trained on labelled pairs.

    Args:
        base: section `encoder`, whose model the trained one starts from.
        texts: opens the labelled pairs of a split, `train` or `dev`, as a model reads them.
        folder: where it goes, and where training keeps what a killed run resumes from.
    """
    if section.model is not None:
        QueryGenerator.load(Source(section.model, section.revision), precision=base.precision).save(folder)
        write_json(folder / "statistics.json", {"model": section.model, "revision": section.revision})
        log.info("%s: used as it is, nothing is trained", section.model)
        return
    model = QueryGenerator.from_encoder(Source(base.model, base.revision, base.trust_remote_code), base, seed=seed)
    labelled = texts(model, "train")
    history = train_generator(model, labelled, section, folder / WORK, seed=seed, frozen_layers=base.frozen_layers)
    if distributed.is_first():
        loss = mean_loss(model, texts(model, "dev"))
        log.info("generator: %d training pairs, dev loss %.3f nats a token", len(labelled), loss)
        write_json(folder / "statistics.json", {"train_pairs": len(labelled), "dev_loss": loss})
    model.save(folder)
    write_history(folder / "history.csv", history)
