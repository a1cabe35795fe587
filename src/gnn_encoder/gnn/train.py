"""Training GNN-encoder by Masked Graph Training (section 3.4), in two phases, and its control."""

import logging
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import nn

from gnn_encoder.base.judgements import Identical, relevant_pairs
from gnn_encoder.base.matrix import Matrix, Rows, check_shape, gather_rows, open_matrix
from gnn_encoder.base.tables import count_rows
from gnn_encoder.data.answers import answered, judged_by_answers
from gnn_encoder.gnn.masking import Supervision, supervise
from gnn_encoder.gnn.neighbourhood import Neighbourhood
from gnn_encoder.gnn.network import GNNConfig, QueryPassageGNN
from gnn_encoder.gnn.start import choose_start, closed_form
from gnn_encoder.gnn.tasks import CachedEmbeddings, CorpusTask, GNNTask, LearntEmbeddings, LearntQueries
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params, PhaseOne
from gnn_encoder.search.exact import array_top_k
from gnn_encoder.text.corpus import embed_queries, open_passages, open_queries
from gnn_encoder.text.device import device
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.text.tokens import TextTokens
from gnn_encoder.train.dev import (
    POOL_DEPTH,
    WHOLE,
    DevSample,
    dev_sample,
    no_grad_eval,
    ranked,
    reciprocal_ranks,
    retrieved_pairs,
    sample_queries,
)
from gnn_encoder.train.dual_encoder import ContrastiveTask, Texts
from gnn_encoder.train.examples import Examples, open_examples
from gnn_encoder.train.loop import History, Task, evaluate_every, fit, parameter_group

log = logging.getLogger(__name__)
HEADS = 4  # of the attention; the paper does not say how many
CACHED_PASSAGES = 50_000  # a corpus of at most so many is ranked whole by phase one, which need not encode it
CACHED_QUERIES = 2_000  # dev queries that rank it
EVALUATIONS, JOINT = 20, 3  # of phase one on dev after its start, and of phase two where it encodes queries alone

# Gives those of some pairs of a dev query and a passage (columns query, passage) that hold an answer.
Answered = Callable[[pl.DataFrame], pl.DataFrame]


class Setup:
    """M_de, which is the system `base`, and the data, from which GNN-encoder and its control start.

    Training changes the `encoder`, but not its `cached` passage embeddings, *Shape:* (m, d).
    """

    def __init__(self, base: str, params: Params) -> None:
        n_passages, dev = count_rows(project.PASSAGES), project.queries("dev")
        self.params, precision, dropout = params, params.encoder.precision, params.encoder.dropout
        self.encoder = DualEncoder.load(project.encoder(base), precision=precision, dropout=dropout)
        check_shape(project.embeddings(base), (n_passages, self.encoder.dimension))
        self.cached = open_matrix(project.embeddings(base))
        self.examples = open_examples(project.EXAMPLES, project.queries("train"))
        self.passages, self.dev_queries = open_passages(self.encoder), open_queries(dev, self.encoder)
        self._dev_pairs = relevant_pairs(dev, project.POSITIVES, project.PASSAGES)
        self._dev_own = Identical.read(project.IDENTICAL, "dev").own
        hits = partial(answered, queries=dev, passages=project.PASSAGES, kind=params.evaluate.answers)
        self._answered = hits if judged_by_answers(dev) else None

    def texts(self, queries: TextTokens) -> Texts:
        """Some queries, and the passages."""
        how = self.params.encoder
        return Texts(self.encoder, queries, self.passages, batch_tokens=how.batch_tokens, chunk_size=how.chunk_size)

    def embed(self, queries: TextTokens, rows: Rows | None = None) -> Matrix:
        """E_Q of some queries by the present weights. *Shape:* (n, d)."""
        with no_grad_eval(self.encoder):
            return embed_queries(self.encoder, queries, self.params.encoder.batch_tokens, rows)

    def sample(self, *, whole: int, queries: int) -> DevSample:
        """The dev sample of so many queries; see `draw_dev`."""
        return draw_dev(
            self._dev_pairs,
            lambda rows: self.embed(self.dev_queries, rows),
            self.cached,
            size=queries,
            whole=whole,
            depth=POOL_DEPTH,
            seed=self.params.seed,
            answered=self._answered,
            own=self._dev_own,
        )


def draw_dev(
    pairs: pl.DataFrame,
    embed: Callable[[Rows], Matrix],
    cached: NDArray[Any],
    *,
    size: int,
    whole: int,
    depth: int,
    seed: int,
    answered: Answered | None = None,
    own: pl.DataFrame | None = None,
) -> DevSample:
    """The fixed dev sample, with a pool that M_de retrieves from its passage matrix, or with the whole small corpus.

    In data that are judged by answers, the relevant passages of a query are BM25's best passage that holds an answer,
    and those of M_de's top passages of this query that hold one. The other passages of the pool count as not relevant.

    At most `size` of the queries in `pairs` (columns query, passage), judged relevant, rank a corpus of at most `whole`
    passages whole, or else a pool to which each adds `depth`; `own`: as in `dev_sample`.

    *Shape:* embed, E_Q, (q,) -> (q, d), cached, M_de's passage embeddings, (m, d).
    """
    rows, m = sample_queries(pairs, size, seed), len(cached)
    retrieved: Rows = np.empty((len(rows), 0), dtype=np.int64)
    if m > whole or answered is not None:
        retrieved, _ = array_top_k(cached, embed(rows), min(depth, m), name="candidates of dev queries")
    if answered is not None:
        hits = answered(retrieved_pairs(rows, retrieved))
        pairs = pl.concat([pairs, hits]).unique().sort("query", "passage")
    return dev_sample(rows, pairs, ranked(retrieved, m, whole), own)


def train_gnn_encoder(
    setup: Setup, near: Neighbourhood, queries: TextTokens, nodes: Matrix, folder: Path
) -> tuple[QueryPassageGNN, History]:
    """Phase one, the GNN alone, then phase two from its best weights, the GNN with E_Q and, over a batch, with E_P.

    Phase two scores those weights on the dev sample before it trains, so that its result never scores below them.
    `near` is the graph that will inform the corpus, and `queries` are the texts of its nodes, which M_de embeds as
    `nodes`, *Shape:* (n, d).
    """
    mgt, encoder, params, examples = setup.params.mgt, setup.encoder, setup.params, setup.examples
    edge_dimension = None if near.features is None else near.features.edges.shape[1]
    gnn = new_gnn(mgt, (encoder.dimension, edge_dimension), encoder.settings.similarity, seed=params.seed)
    graphs, of_corpus = graphs_of(near, examples, mgt), mgt.softmax == "corpus"
    factor = new_factor(encoder.scale)
    # Phase one reads passages from the cache, so that more queries rank a corpus that phase two would have to encode.
    most = CACHED_QUERIES if len(setup.cached) <= CACHED_PASSAGES else params.dev.queries
    one = setup.sample(whole=CACHED_PASSAGES, queries=most)
    cached = CachedEmbeddings(*map(torch.from_numpy, (nodes, setup.embed(setup.dev_queries, one.queries))))
    alone = supervise(examples, one, mgt, mgt.alone, params.seed)
    history = train_on_embeddings(gnn, graphs, alone, cached, factor=factor, mgt=mgt, folder=folder)
    if mgt.joint.steps:
        two = one
        # Over a batch the encoder reads the dev passages too. A pool of all these queries would hold as many of them.
        if not of_corpus and len(setup.cached) > CACHED_QUERIES * POOL_DEPTH:
            two = setup.sample(whole=WHOLE, queries=params.dev.queries)
            cached = CachedEmbeddings(cached.queries, torch.from_numpy(setup.embed(setup.dev_queries, two.queries)))
        joint = supervise(examples, two, mgt, mgt.joint, params.seed, after=mgt.alone.steps)
        texts, start = setup.texts(queries), GNNTask(gnn, graphs, joint, cached, scale=encoder.scale).evaluate()
        encoder.freeze_lower(params.encoder.frozen_layers)
        task: GNNTask
        if of_corpus:
            encoder.fix_passages()
            asked = LearntQueries(encoder, texts, setup.dev_queries, cached=cached)
            task = CorpusTask(gnn, graphs, joint, asked, factor=factor)
        else:
            learnt = LearntEmbeddings(encoder, texts, setup.dev_queries)
            task = GNNTask(gnn, graphs, joint, learnt, scale=encoder.scale)
        groups = [parameter_group(encoder, mgt.joint.encoder_learning_rate), *task.groups(mgt.joint.gnn_learning_rate)]
        evaluations = max(JOINT, params.dev.evaluations) if of_corpus else params.dev.evaluations
        history += _fit(task, groups, joint, folder / "joint", "encoder and GNN", evaluations, start)
    return gnn, history


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
    history = _fit(task, task.groups(mgt.alone.learning_rate), supervision, folder / "gnn", "GNN alone", EVALUATIONS)
    if start is not None:
        scores = [row["dev_rr10"] for row in history if row["dev_rr10"] is not None]
        if start.restore(gnn, max(scores, default=start.value)):
            task.calibrate()  # for phase two
    return history


def train_control(setup: Setup, queries: TextTokens, folder: Path) -> History:
    """The control: M_de trained further without a graph, on the texts of the training queries."""
    params, section, encoder = setup.params, setup.params.train_no_gnn, setup.encoder
    dev = setup.sample(whole=WHOLE, queries=params.dev.queries)
    supervision = supervise(setup.examples, dev, params.mgt, section, params.seed, masked=False)
    encoder.freeze_lower(params.encoder.frozen_layers)
    steps = (lambda number: supervision.batch(number)[0]), len(supervision)
    task = ContrastiveTask(encoder, setup.texts(queries), setup.examples, *steps, dev=(dev, setup.dev_queries))
    groups = [parameter_group(encoder, section.learning_rate)]
    asked, pool = setup.embed(setup.dev_queries, dev.queries), gather_rows(setup.cached, dev.pool).astype(np.float32)
    start = reciprocal_ranks(torch.from_numpy(asked), torch.from_numpy(pool), dev.relevant, own=dev.own)
    title, evaluations = project.title_of("no_gnn"), params.dev.evaluations
    return _fit(task, groups, supervision, folder / "no_gnn", title, evaluations, float(start.mean()))


def new_gnn(
    mgt: PhaseOne, dimensions: tuple[int, int | None], similarity: str, *, seed: int, heads: int = HEADS
) -> QueryPassageGNN:
    """An untrained network, which starts near the identity; `dimensions`: d, and d_e of the edge features."""
    torch.manual_seed(int(np.random.SeedSequence([seed, 1]).generate_state(1)[0]))
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


def _fit(
    task: Task,
    groups: list[dict[str, Any]],
    supervision: Supervision,
    folder: Path,
    title: str,
    evaluations: int,
    start: float | None = None,
) -> History:
    schedule = supervision.schedule
    log.info("%s: %d steps, %d rounds a pass over the queries", title, len(schedule), schedule.rounds)
    every = evaluate_every(len(task), evaluations)
    return fit(
        task,
        groups,
        folder,
        name=folder.name,
        title=title,
        seed=supervision.seed,
        evaluate_every=every,
        start=start,
    )
