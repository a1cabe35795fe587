"""Training a dual-encoder by Eq. 2, or by PAIR's Eq. 6, with in-batch, hard and cross-batch negatives."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, nn

from gnn_encoder.base import distributed
from gnn_encoder.base.judgements import Identical
from gnn_encoder.base.matrix import Rows
from gnn_encoder.base.tables import DEV_CANDIDATES, count_rows, read_table
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Contrastive, Encoder, Params
from gnn_encoder.text.batches import Batch, Inputs, encode_by_length, padded, single_batch
from gnn_encoder.text.corpus import open_passages, open_queries, passage_inputs
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.text.tokens import TextTokens
from gnn_encoder.train.dev import DevSample, pooled_sample, retrieval_score
from gnn_encoder.train.examples import BatchSampler, Examples, TrainingBatch, local_part, stream
from gnn_encoder.train.loop import fit_evenly
from gnn_encoder.train.losses import contrastive_loss, passage_centric_loss


class Representations:
    """Embeddings of the queries or of the passages of a batch, by gradient caching (Gao et al. 2021, arXiv:2101.06983).

    A batch is first encoded in chunks, without autograd. The loss of all embeddings together leaves the gradient of
    each on `value`. `backward` then encodes each chunk again, now with autograd, and passes these gradients on to the
    encoder: those of the whole batch, in the memory of one chunk of `chunk_tokens` padded tokens.
    """

    def __init__(self, encode: Callable[[Batch], Tensor], batch: Batch, chunk_tokens: int) -> None:
        self._encode, self._batch = encode, batch
        # Places of the texts in chunks of about `chunk_tokens`, longest first, if none is padded to more than its own.
        order = np.argsort(-batch.lengths, kind="stable")
        chunk = (np.cumsum(padded(batch.lengths[order])) - 1) // chunk_tokens
        self.chunks = np.split(order, np.flatnonzero(np.diff(chunk)) + 1)
        self._states, parts = list[tuple[Tensor, Tensor | None]](), list[Tensor]()
        # Encoding a single chunk twice would save no memory: its autograd graph is kept.
        with torch.set_grad_enabled(torch.is_grad_enabled() and len(self.chunks) == 1):
            for chunk in self.chunks:
                self._states.append(_random_state())
                parts.append(encode(batch.part(chunk)))
        self._first, value = parts[0], torch.cat(parts).detach()
        self.value = value[torch.from_numpy(order).argsort().to(value.device)].requires_grad_()

    def backward(self) -> None:
        """Pass the gradient that `value` has collected on to the encoder's parameters."""
        for chunk, state in zip(self.chunks, self._states, strict=True):
            if self.value.grad is None:
                return
            vectors = self._first if len(self.chunks) == 1 else self._again(chunk, state)
            if vectors.requires_grad:
                vectors.backward(self.value.grad[torch.from_numpy(chunk)])

    def _again(self, chunk: NDArray[np.int64], state: tuple[Tensor, Tensor | None]) -> Tensor:
        after = _random_state()
        _set_random_state(*state)  # the second pass draws the same dropout as the first
        vectors = self._encode(self._batch.part(chunk))
        _set_random_state(*after)
        return vectors


@dataclass(frozen=True)
class Fixed:
    """Embeddings that do not learn, where others are `Representations`."""

    value: Tensor

    def backward(self) -> None:
        """Nothing: no parameter made them."""


def backward(loss: Tensor, *sides: Representations | Fixed) -> float:
    """The gradients of a loss, passed on to what made the embeddings. Returns the loss."""
    loss.backward()
    for side in sides:
        side.backward()
    return loss.item()


def _random_state() -> tuple[Tensor, Tensor | None]:
    return torch.get_rng_state(), torch.cuda.get_rng_state() if torch.cuda.is_available() else None


def _set_random_state(of_cpu: Tensor, of_gpu: Tensor | None) -> None:
    torch.set_rng_state(of_cpu)
    if of_gpu is not None:
        torch.cuda.set_rng_state(of_gpu)


@dataclass(frozen=True)
class Texts:
    """Queries and passages as batches for an encoder, which reads `batch_tokens` padded tokens at a time.

    With gradient it reads at a time what `chunk_size` passages of most tokens have. A Dual-Cross-Encoder reads passages
    together with the training query that each was drawn for.
    """

    encoder: DualEncoder
    query_tokens: TextTokens
    passage_tokens: TextTokens
    batch_tokens: int = 2**31
    chunk_size: int = 2**31

    def represented(self, encode: Callable[[Batch], Tensor], batch: Batch) -> Representations:
        """Embeddings of a batch, which pass their gradient on to `encode`'s parameters."""
        longest = self.encoder.settings.pair_length or self.encoder.settings.passage_length
        encode_parts = partial(encode_by_length, encode, batch_tokens=self.batch_tokens)
        return Representations(encode_parts, batch, self.chunk_size * padded(longest))

    def queries(self, rows: Rows) -> Batch:
        """Queries by row, padded."""
        return single_batch(self.query_tokens, rows, self.encoder.template, self.encoder.settings.query_length)

    def passages(self, rows: Rows) -> Batch:
        """Passages by row, alone, padded."""
        return single_batch(self.passage_tokens, rows, self.encoder.template, self.encoder.settings.passage_length)

    def represent_queries(self, rows: Rows) -> Representations:
        """E_Q of some queries."""
        return self.represented(self.encoder.encode_queries, self.queries(rows))

    def represent_passages(self, rows: Rows) -> Representations:
        """E_P of some passages, read alone."""
        return self.represented(self.encoder.encode_passages, self.passages(rows))

    def passages_of(self, batch: TrainingBatch, part: Rows) -> Batch:
        """The passages `batch.passages[part]` as E_P reads them: alone, or together with a query.

        A Dual-Cross-Encoder reads each with the query that it was drawn for, f: (q, d+, d-) -> (q, q + d+, q + d-)
        (Dual-Cross-Encoder Eq. 8).
        """
        rows, length = batch.passages[part], self.encoder.settings.pair_length
        if length is None:
            return self.passages(rows)
        texts = self.query_tokens, batch.asked[part], self.passage_tokens, rows
        return Inputs.pairs(*texts, self.encoder.template, length).batch()


def open_texts(encoder: DualEncoder, queries: Path, section: Encoder) -> Texts:
    """The texts of a table of queries, and the passages."""
    sides = open_queries(queries, encoder), open_passages(encoder)
    return Texts(encoder, *sides, batch_tokens=section.batch_tokens, chunk_size=section.chunk_size)


def batch_loss(
    queries: Tensor, passages: Tensor, batch: TrainingBatch, examples: Examples, scale: float, *, alpha: float = 0.0
) -> Tensor:
    """This rank's queries' part of a batch's mean loss, in which all of its passages are negatives of each query.

    L = (1 - alpha) L_Q + alpha L_P        (PAIR Eq. 6; with alpha 0, GNN-encoder Eq. 2 and 12)

    *Shape:* queries and passages of `local_part` (q, d), (q * (1 + negatives), d).
    """
    asked, places = local_part(batch)
    everything = gather(passages, places, len(batch.passages))
    scores = scale * queries @ everything.T
    masked = torch.from_numpy(examples.is_spared(batch.queries[asked, None], batch.passages)).to(scores.device)
    positive = torch.from_numpy(asked).to(scores.device)
    loss = contrastive_loss(scores, positive, masked)
    if alpha > 0:
        to_passages = scale * passages[: len(queries)] @ everything.T
        to_queries = scores.gather(1, positive.unsqueeze(1)).squeeze(1)
        loss = (1 - alpha) * loss + alpha * passage_centric_loss(to_passages, to_queries, positive, masked)
    return loss / len(batch.queries)


class _Sum(torch.autograd.Function):
    """The sum over all ranks; so is a value's gradient."""

    @staticmethod
    def forward(ctx: object, value: Tensor) -> Tensor:
        total = value.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:
        return _Sum.forward(ctx, gradient)


def gather(rows: Tensor, places: Rows, count: int) -> Tensor:
    """Rows of every rank, for cross-batch negatives; gradients flow back to the rank that owns a row.

    *Shape:* rows (n, ...), their places among all (n,) -> (count, ...).
    """
    if distributed.world_size() == 1:
        return rows
    mine = rows.new_zeros(count, *rows.shape[1:]).index_copy(0, torch.from_numpy(places).to(rows.device), rows)
    result: Tensor = _Sum.apply(mine)  # type: ignore[no-untyped-call]  # each place is zero on all ranks but one
    return result


def contrastive_step(texts: Texts, batch: TrainingBatch, examples: Examples, *, alpha: float = 0.0) -> float:
    """Forward and backward of one batch by Eq. 1 and `batch_loss`. Returns this rank's share of the mean loss."""
    (asked, places), encoder = local_part(batch), texts.encoder
    queries = texts.represent_queries(batch.queries[asked])
    passages = texts.represented(encoder.encode_passages, texts.passages_of(batch, places))
    loss = batch_loss(queries.value, passages.value, batch, examples, encoder.scale, alpha=alpha)
    return backward(loss, queries, passages)


@dataclass
class ContrastiveTask:
    """Training of the encoder of `texts` by `batch_loss`; `alpha` is the weight of PAIR's passage-centric loss."""

    texts: Texts
    examples: Examples
    draw: Callable[[int], TrainingBatch]  # the batch of each of so many steps
    steps: int
    dev: tuple[DevSample, TextTokens]  # the sample that the dev score is of, and tokens of the dev queries
    views: Inputs | None = None  # what E_P reads in search; None: passages alone
    alpha: float = 0.0

    def __post_init__(self) -> None:
        self.modules: dict[str, nn.Module] = {"encoder": self.texts.encoder}
        self.texts.encoder.train()

    def step(self, number: int) -> float:
        """Forward and backward of one batch, through GradCache."""
        return contrastive_step(self.texts, self.draw(number), self.examples, alpha=self.alpha)

    def evaluate(self) -> float:
        """RR@10 of the dev sample by retrieval."""
        read = self.views if self.views is not None else passage_inputs(self.texts.encoder, self.texts.passage_tokens)
        return retrieval_score(self.texts.encoder, *self.dev, read, self.texts.batch_tokens)


def train_dual_encoder(
    texts: Texts,
    examples: Examples,
    section: str,
    params: Params,
    folder: Path,
    *,
    title: str,
    views: Inputs | None = None,
    alpha: float = 0.0,
    dev: Path = project.DEV_CANDIDATES,
) -> None:
    """Train as `section` of params.yaml says, and write the best weights; the log calls it `title`."""
    settings: Contrastive = params.value(section)
    encoder = texts.encoder
    encoder.freeze_lower(params.encoder.frozen_layers)
    found, own = read_table(dev, DEV_CANDIDATES), Identical.read(project.IDENTICAL, "dev").own
    sample = pooled_sample(found, count_rows(project.PASSAGES), own), open_queries(project.queries("dev"), encoder)
    batches = BatchSampler(len(examples), settings.batch_size, stream(params.seed, section))
    draw = partial(batches.draw, examples, negatives=settings.negatives)
    task = ContrastiveTask(texts, examples, draw, settings.steps, dev=sample, views=views, alpha=alpha)
    fit_evenly(task, encoder, settings.learning_rate, params, folder, name="contrastive", title=title)
