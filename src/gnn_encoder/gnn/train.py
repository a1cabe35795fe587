"""What both phases of Masked Graph Training (section 3.4) and the control start from, phase one, and the loop."""

import logging
import math
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import nn

from gnn_encoder.base.judgements import Identical, relevant_pairs
from gnn_encoder.base.matrix import Matrix, Rows, check_shape, open_matrix
from gnn_encoder.base.tables import count_rows
from gnn_encoder.data.answers import answered, judged_by_answers
from gnn_encoder.gnn.masking import Supervision
from gnn_encoder.gnn.neighbourhood import Neighbourhood
from gnn_encoder.gnn.network import GNNConfig, QueryPassageGNN
from gnn_encoder.gnn.start import choose_start, closed_form
from gnn_encoder.gnn.tasks import CachedEmbeddings, CorpusTask, GNNTask
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params, PhaseOne
from gnn_encoder.pipeline.project import REFERENCE
from gnn_encoder.search.exact import array_top_k
from gnn_encoder.text.corpus import embed_queries, open_queries
from gnn_encoder.text.device import device
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.train.dev import (
    POOL_DEPTH,
    WHOLE,
    DevSample,
    dev_sample,
    no_grad_eval,
    ranked,
    retrieved_pairs,
    sample_queries,
)
from gnn_encoder.train.examples import Examples, seed_of
from gnn_encoder.train.loop import History, Task, fit

log = logging.getLogger(__name__)
HEADS = 4  # of the attention; the paper does not say how many
CACHED_PASSAGES = 50_000  # a corpus of at most so many is ranked whole by phase one, which need not encode it
CACHED_QUERIES = 2_000  # dev queries that rank it
ENCODED_PASSAGES = CACHED_QUERIES * POOL_DEPTH  # in the pool of these at most, which phase two can encode
EVALUATIONS, JOINT = 20, 3  # of phase one on dev after its start, and of phase two where it encodes queries alone


def load_base(params: Params) -> tuple[DualEncoder, NDArray[Any]]:
    """M_de, to be trained further, and its cached passage embeddings. *Shape:* (m, d)."""
    how, matrix = params.encoder, project.embeddings(REFERENCE)
    encoder = DualEncoder.load(project.encoder(REFERENCE), precision=how.precision, dropout=how.dropout)
    check_shape(matrix, (count_rows(project.PASSAGES), encoder.dimension))
    return encoder, open_matrix(matrix)


class DevSamples:
    """The dev queries, as the `encoder` reads them, and what is relevant for them; `cached`: as of `load_base`."""

    def __init__(self, encoder: DualEncoder, cached: NDArray[Any], params: Params) -> None:
        table = project.queries("dev")
        self.tokens, self._encoder, self._params = open_queries(table, encoder), encoder, params
        self._m = len(cached)
        self._size = CACHED_QUERIES if self._m <= CACHED_PASSAGES else params.dev.queries
        pairs = relevant_pairs(table, project.POSITIVES, project.PASSAGES)
        hits = partial(answered, queries=table, passages=project.PASSAGES) if judged_by_answers(table) else None
        own = Identical.read(project.IDENTICAL, "dev").own
        self._draw = partial(draw_dev, pairs, self.embed, cached, seed=params.seed, answered=hits, own=own)

    def embed(self, rows: Rows) -> Matrix:
        """E_Q of some queries by the present weights. *Shape:* (q,) -> (q, d)."""
        with no_grad_eval(self._encoder):
            return embed_queries(self._encoder, self.tokens, self._params.encoder.batch_tokens, rows)

    @cached_property
    def looked_up(self) -> DevSample:
        """The sample that ranks passages of the cache: more queries rank a larger corpus than could be encoded."""
        return self._draw(size=self._size, whole=CACHED_PASSAGES)

    def of_joint(self) -> DevSample:
        """The sample of phase two and of the control: a smaller one where the encoder reads a larger corpus anew."""
        if self._params.mgt.softmax == "corpus" or self._m <= ENCODED_PASSAGES:
            return self.looked_up
        return self._draw(size=self._params.dev.queries, whole=WHOLE)


def draw_dev(
    pairs: pl.DataFrame,
    embed: Callable[[Rows], Matrix],
    cached: NDArray[Any],
    *,
    size: int,
    whole: int,
    seed: int,
    answered: Callable[[pl.DataFrame], pl.DataFrame] | None = None,
    own: pl.DataFrame | None = None,
) -> DevSample:
    """The fixed dev sample, with a pool that M_de retrieves from its passage matrix, or with the whole small corpus.

    In data that are judged by answers, the relevant passages of a query are BM25's best passage that holds an answer,
    and those of M_de's top passages of this query that hold one. The other passages of the pool count as not relevant.

    At most `size` of the queries in `pairs` (columns query, passage), judged relevant, rank a corpus of at most `whole`
    passages whole, or else a pool to which each adds `POOL_DEPTH`; `own`: as in `dev_sample`. `answered` keeps those of
    some pairs (columns query, passage) that hold an answer.

    *Shape:* embed, E_Q, (q,) -> (q, d), cached, M_de's passage embeddings, (m, d).
    """
    rows, m = sample_queries(pairs, size, seed), len(cached)
    retrieved: Rows = np.empty((len(rows), 0), dtype=np.int64)
    if m > whole or answered is not None:
        retrieved, _ = array_top_k(cached, embed(rows), min(POOL_DEPTH, m), name="candidates of dev queries")
    if answered is not None:
        hits = answered(retrieved_pairs(rows, retrieved))
        pairs = pl.concat([pairs, hits]).unique().sort("query", "passage")
    return dev_sample(rows, pairs, ranked(retrieved, m, whole), own)


def new_gnn(
    mgt: PhaseOne, dimensions: tuple[int, int | None], similarity: str, *, seed: int, heads: int = HEADS
) -> QueryPassageGNN:
    """An untrained network, which starts near the identity; `dimensions`: d, and d_e of the edge features."""
    torch.manual_seed(seed_of(seed, 1))
    config = GNNConfig(
        dimension=dimensions[0],
        edge_dimension=dimensions[1],
        layers=mgt.layers,
        heads=heads,
        gate=mgt.gate,
        edge_features=mgt.edge_features,
        labels=mgt.labels,
        similarity=similarity,
        cached_nodes=mgt.softmax == "corpus",
    )
    return QueryPassageGNN(config).to(device())


def joint_evaluations(params: Params) -> int:
    """Dev scores of phase two after its start: each is cheap where passages are not encoded anew."""
    return max(JOINT, params.dev.evaluations) if params.mgt.softmax == "corpus" else params.dev.evaluations


def new_factor(scale: float) -> nn.Parameter:
    """The logarithm of the scores' factor, which `CorpusTask` learns."""
    return nn.Parameter(torch.tensor(math.log(scale), device=device()))


def graphs_of(near: Neighbourhood, examples: Examples, mgt: PhaseOne) -> tuple[Neighbourhood, Neighbourhood]:
    """The graph that trains a network, with the edges to positives or without, and the one that informs the corpus."""
    if mgt.masking == "mgt":
        return near, near
    return near.without(pl.concat([near.labels.pairs, examples.known_pairs()])), near


def train_on_embeddings(
    gnn: QueryPassageGNN,
    graphs: tuple[Neighbourhood, Neighbourhood],
    supervision: Supervision,
    cached: CachedEmbeddings,
    *,
    factor: nn.Parameter,
    mgt: PhaseOne,
    folder: Path,
) -> History:
    """Phase one: the GNN alone learns, by Masked Graph Training on cached embeddings; arguments as of `GNNTask`.

    Where there are no steps it still starts as dev says, and `factor` where it fits.
    """
    learning, start = (gnn, graphs, supervision, cached), None
    of_corpus = mgt.softmax == "corpus"
    task = CorpusTask(*learning, factor=factor) if of_corpus else GNNTask(*learning, scale=factor.exp().item())
    if gnn.config.labels:
        cosine = gnn.config.similarity == "cosine"
        closed = closed_form(graphs[1], cached.queries, cached.of_dev, supervision.dev, cosine=cosine)
        start = choose_start(gnn, task.reciprocal_ranks, closed)
    task.calibrate()
    groups = task.groups(mgt.alone.learning_rate)
    history = fit_phase(task, groups, supervision, folder / "gnn", "GNN alone", EVALUATIONS)
    if start is not None:
        scores = [row["dev_rr10"] for row in history if row["dev_rr10"] is not None]
        if start.restore(gnn, max(scores, default=start.value)):
            history.append({"phase": "gnn", "step": 0, "loss": None, "dev_rr10": start.value})
            task.calibrate()  # for phase two
    return history


def fit_phase(
    task: Task,
    groups: list[dict[str, Any]],
    supervision: Supervision,
    folder: Path,
    title: str,
    evaluations: int,
    start: float | None = None,
) -> History:
    """Train a task by `fit`, with so many dev scores; the phase is named after `folder`."""
    log.info("%s: %d steps, %d rounds a pass over the queries", title, task.steps, supervision.rounds)
    how: dict[str, Any] = {"seed": supervision.seed, "evaluations": evaluations, "start": start}
    return fit(task, groups, folder, name=folder.name, title=title, **how)
