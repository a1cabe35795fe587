"""Training a dual-encoder by Eq. 2, or by PAIR's Eq. 6, with in-batch, hard and cross-batch negatives."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import torch
import torch.distributed as dist
from torch import Tensor, nn

from gnn_encoder.base import distributed
from gnn_encoder.base.errors import UserError
from gnn_encoder.base.judgements import Identical, pair_counts
from gnn_encoder.base.matrix import Rows
from gnn_encoder.base.tables import DEV_CANDIDATES, count_rows, read_table
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Contrastive, Params
from gnn_encoder.text.batches import Batch, encode_by_length, padded, single_batch, text_batch
from gnn_encoder.text.corpus import open_queries, passage_inputs
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.text.tokens import TextTokens
from gnn_encoder.train.dev import DevSample, Views, pooled_sample, retrieval_score
from gnn_encoder.train.examples import Examples, TrainingBatch, draw_batch, steps_of, stream
from gnn_encoder.train.grad_cache import Representations
from gnn_encoder.train.loop import fit_evenly
from gnn_encoder.train.losses import contrastive_loss, distillation_loss, passage_centric_loss

TEACHER_WEIGHT = 0.7  # lambda, of the soft targets in the loss


@dataclass(frozen=True)
class Generated:
    """Queries generated from the passages, `views` for each: row r was generated from passage r // views."""

    tokens: TextTokens
    views: int


class Texts:
    """Queries and passages as batches for an encoder.

    Args:
        beside: generated queries that a Dual-Cross-Encoder reads together with the passages; None: it reads a passage
            together with the training query that the passage was drawn for.
        plain_share: of the passages that it would read together with a query, so many are read alone.
        batch_tokens: padded tokens that the encoder reads at a time.
        chunk_size: with gradient it reads at a time what so many passages of most tokens have.
    """

    def __init__(
        self,
        encoder: DualEncoder,
        queries: TextTokens,
        passages: TextTokens,
        beside: Generated | None = None,
        *,
        plain_share: float = 0.0,
        batch_tokens: int = 2**31,
        chunk_size: int = 2**31,
    ) -> None:
        self._template, self._settings = encoder.template, encoder.settings
        self.query_tokens, self.passage_tokens, self._beside = queries, passages, beside
        self._plain_share, self.batch_tokens, self._chunk_size = plain_share, batch_tokens, chunk_size

    def represented(self, encode: Callable[[Batch], Tensor], batch: Batch) -> Representations:
        """Embeddings of a batch, which pass their gradient on to `encode`'s parameters."""
        longest = self._settings.pair_length or self._settings.passage_length
        encode_parts = partial(encode_by_length, encode, batch_tokens=self.batch_tokens)
        return Representations(encode_parts, batch, self._chunk_size * padded(longest))

    def queries(self, rows: Rows) -> Batch:
        """Queries by row, padded."""
        return single_batch(self.query_tokens, rows, self._template, self._settings.query_length)

    def passages(self, rows: Rows) -> Batch:
        """Passages by row, passage_inputs, padded."""
        return single_batch(self.passage_tokens, rows, self._template, self._settings.passage_length)

    def passages_of(self, batch: TrainingBatch, part: Rows) -> Batch:
        """The passages `batch.passages[part]` as E_P reads them: alone, or together with a query.

        A Dual-Cross-Encoder reads `plain_share` of them alone, drawn at random, and each of the others with the query
        that it was drawn for, f: (q, d+, d-) -> (q, q + d+, q + d-) (Dual-Cross-Encoder Eq. 8). With `beside` it is one
        of the passage's own generated queries, as in the index, and another one than the training query itself.
        """
        settings, rows, asked = self._settings, batch.passages[part], batch.asked[part]
        if settings.pair_length is None:
            return self.passages(rows)
        first, first_rows = self.query_tokens, asked
        if self._beside is not None:
            # A generated training query in row r is view r % views of its passage: the next view is another query.
            first, views = self._beside.tokens, self._beside.views
            first_rows = rows * views + (asked + 1) % views
        # The batch's own queries are the seed: a resumed training draws the same, and another pass draws anew.
        alone = np.random.default_rng(batch.queries).random(len(batch.passages))[part] < self._plain_share
        texts = first, np.where(alone, -1, first_rows), self.passage_tokens, rows
        return text_batch(*texts, self._template, settings.pair_length, settings.passage_length)


def chunks(rows: Rows, size: int) -> list[Rows]:
    """Consecutive parts of at most `size` rows."""
    return [rows[first : first + size] for first in range(0, len(rows), size)]


def represent_queries(encoder: DualEncoder, texts: Texts, rows: Rows) -> Representations:
    """E_Q of some queries."""
    return texts.represented(encoder.encode_queries, texts.queries(rows))


def represent_passages(encoder: DualEncoder, texts: Texts, rows: Rows) -> Representations:
    """E_P of some passages, read alone."""
    return texts.represented(encoder.encode_passages, texts.passages(rows))


def batch_loss(
    queries: Tensor, passages: Tensor, batch: TrainingBatch, examples: Examples, scale: float, *, alpha: float = 0.0
) -> Tensor:
    """The part of the batch's mean loss that this rank's queries have. All passages of the batch are negatives of each.

    L = (1 - alpha) L_Q + alpha L_P        (PAIR Eq. 6; with alpha 0, GNN-encoder Eq. 2 and 12)

    With soft targets L_Q is (1 - lambda) L_Q + lambda L_T, and lambda is TEACHER_WEIGHT.

    Args:
        queries, passages: embeddings of what `local_part` gives this rank of the batch.

    *Shape:* queries (q, d), passages (q * (1 + negatives), d).
    """
    asked, places = local_part(batch)
    everything = gather(passages, places, len(batch.passages))
    scores = scale * queries @ everything.T
    masked = torch.from_numpy(examples.is_spared(batch.queries[asked, None], batch.passages)).to(scores.device)
    positive = torch.from_numpy(asked).to(scores.device)
    if batch.targets is None:
        loss = contrastive_loss(scores, positive, masked)
    else:
        own, targets = (torch.from_numpy(x).to(scores.device) for x in (batch.own(asked), batch.targets[asked]))
        # Many of the passages that the teacher weighs are relevant. So L_Q has the others of the batch as negatives.
        labelled = contrastive_loss(scores, positive, masked.scatter(1, own, True))
        taught = distillation_loss(scores.gather(1, own), targets)
        loss = (1 - TEACHER_WEIGHT) * labelled + TEACHER_WEIGHT * taught
    if alpha > 0:
        to_passages = scale * passages[: len(queries)] @ everything.T
        to_queries = scores.gather(1, positive.unsqueeze(1)).squeeze(1)
        loss = (1 - alpha) * loss + alpha * passage_centric_loss(to_passages, to_queries, positive, masked)
    return loss / len(batch.queries)


class _Gather(torch.autograd.Function):
    """All ranks' rows in their places. A row's gradients on all ranks are summed on the rank that owns it."""

    @staticmethod
    def forward(ctx, rows: Tensor, places: Tensor, count: int) -> Tensor:  # type: ignore[no-untyped-def]
        ctx.places = places
        everything = rows.new_zeros(count, *rows.shape[1:])
        everything[places] = rows
        dist.all_reduce(everything)  # every place is zero on all ranks but one: a sum of uneven shares, in order
        return everything

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None, None]:  # type: ignore[no-untyped-def]
        total = gradient.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total[ctx.places], None, None


def gather(rows: Tensor, places: Rows, count: int) -> Tensor:
    """Rows of every rank, for cross-batch negatives; gradients flow back to the rank that owns a row.

    Args:
        places: where this rank's rows stand among all; each place is of one rank.

    *Shape:* rows (n, ...), places (n,) -> (count, ...).
    """
    if distributed.world_size() == 1:
        return rows
    result: Tensor = _Gather.apply(rows, torch.from_numpy(places), count)  # type: ignore[no-untyped-call]
    return result


def local_share(items: Rows) -> Rows:
    """This rank's part of a batch; the parts of two ranks differ by at most one item."""
    ranks = distributed.world_size()
    if len(items) < ranks:
        raise UserError(
            f"a batch of {len(items)} queries is too small for {ranks} processes; raise this stage's batch_size in "
            "params.yaml, or start fewer"
        )
    return np.array_split(items, ranks)[distributed.rank()]


def local_part(batch: TrainingBatch) -> tuple[Rows, Rows]:
    """The places of this rank's queries in a batch, and of the passages that were drawn for them, positives first."""
    asked = local_share(np.arange(len(batch.queries)))
    own = batch.own(asked)
    return asked, np.concatenate([own[:, 0], own[:, 1:].reshape(-1)])


class BatchSampler:
    """The batches of a training: all items in each pass, shuffled anew.

    Args:
        items: number of items.
        epochs: passes over the items, of which the last may be cut short.
    """

    def __init__(self, items: int, epochs: float, batch_size: int, seed: int) -> None:
        self._items, self._epochs, self._seed = items, epochs, seed
        self._per_epoch = max(1, round(items / batch_size))
        self._at: tuple[int, Rows] = (-1, np.empty(0, dtype=np.int32))  # an epoch and its order, which is made once
        local_share(np.arange(items // self._per_epoch))  # the smallest batch; an error is told before the training

    def __len__(self) -> int:
        return steps_of(self._epochs, self._per_epoch)

    def items(self, number: int) -> Rows:
        """The items of one step: those of an epoch, shuffled, are split into batches of nearly the same size."""
        epoch, within = divmod(number, self._per_epoch)
        if epoch != self._at[0]:
            narrow = np.arange(self._items, dtype=np.int32 if self._items < 2**31 else np.int64)
            self._at = (epoch, np.random.default_rng([self._seed, epoch]).permutation(narrow))
        size, larger = divmod(self._items, self._per_epoch)
        first = within * size + min(within, larger)
        return self._at[1][first : first + size + (within < larger)].astype(np.int64)

    def draw(self, examples: Examples, number: int, negatives: int) -> TrainingBatch:
        """What all ranks together train on in one step."""
        return draw_batch(examples, self.items(number), negatives, np.random.default_rng([self._seed, number]))


def contrastive_step(
    encoder: DualEncoder, texts: Texts, batch: TrainingBatch, examples: Examples, *, alpha: float = 0.0
) -> float:
    """Forward and backward of one batch by Eq. 1 and `batch_loss`. Returns this rank's share of the mean loss."""
    asked, places = local_part(batch)
    queries = represent_queries(encoder, texts, batch.queries[asked])
    passages = texts.represented(encoder.encode_passages, texts.passages_of(batch, places))
    loss = batch_loss(queries.value, passages.value, batch, examples, encoder.scale, alpha=alpha)
    loss.backward()
    queries.backward()
    passages.backward()
    return loss.item()


class ContrastiveTask:
    """Training of a dual-encoder by `batch_loss`.

    Args:
        seed: of the batches.
        dev: the sample that its dev score is of, and tokens of the dev queries.
        views: what E_P reads in search; None: passages alone.
        alpha: weight of PAIR's passage-centric loss (PAIR Eq. 6).
    """

    def __init__(
        self,
        encoder: DualEncoder,
        texts: Texts,
        examples: Examples,
        settings: Contrastive,
        *,
        seed: int,
        dev: tuple[DevSample, TextTokens],
        views: Views | None = None,
        alpha: float = 0.0,
    ) -> None:
        self.modules: dict[str, nn.Module] = {"encoder": encoder}
        read = views or Views(inputs=passage_inputs(encoder, texts.passage_tokens))
        self.evaluate = partial(retrieval_score, encoder, *dev, read, texts.batch_tokens)
        self._encoder, self._texts, self._examples, self._settings = encoder, texts, examples, settings
        self._batches = BatchSampler(len(examples), settings.epochs, settings.batch_size, seed)
        self._alpha = alpha
        encoder.train()

    def __len__(self) -> int:
        return len(self._batches)

    def step(self, number: int) -> float:
        """Forward and backward of one batch, through GradCache."""
        batch = self._batches.draw(self._examples, number, self._settings.negatives)
        return contrastive_step(self._encoder, self._texts, batch, self._examples, alpha=self._alpha)


def logged_counts(queries: Path) -> pl.DataFrame:
    """How often the labelled pairs of a table of queries were logged: columns query, passage, count."""
    return pair_counts(queries, project.COUNTS, project.PASSAGES)


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
    settings: Contrastive = params.value(section)
    encoder.freeze_lower(params.encoder.frozen_layers)
    found, own = read_table(project.DEV_CANDIDATES, DEV_CANDIDATES), Identical.read(project.IDENTICAL, "dev").own
    dev = pooled_sample(found, count_rows(project.PASSAGES), own), open_queries(project.queries("dev"), encoder)
    seed = stream(params.seed, section)
    task = ContrastiveTask(encoder, texts, examples, settings, seed=seed, dev=dev, views=views, alpha=alpha)
    fit_evenly(task, encoder, settings.learning_rate, params, folder, name="contrastive", title=title)
