"""Training GNN-encoder in two phases, and its control."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor

from gnn_encoder.core.rows import Matrix, Rows
from gnn_encoder.encoding.corpus import embed_queries
from gnn_encoder.encoding.tokens import TextTokens
from gnn_encoder.graph.features import EdgeFeatures
from gnn_encoder.graph.neighbourhood import GraphData, Neighbourhood
from gnn_encoder.graph.network import GNNConfig, QueryPassageGNN
from gnn_encoder.graph.nodes import NO_NODES, Nodes
from gnn_encoder.index.exact import array_top_k
from gnn_encoder.mgt.masking import MaskedSchedule
from gnn_encoder.mgt.params import MGT
from gnn_encoder.mgt.start import choose_start
from gnn_encoder.mgt.tasks import GNNTask, JointTask, NoGNNTask, Supervision
from gnn_encoder.models.device import device
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.training.contrastive import Texts
from gnn_encoder.training.dev import DevSample, dev_sample, ranked, retrieved_pairs, sample_queries
from gnn_encoder.training.examples import Examples
from gnn_encoder.training.loop import History, Settings, fit, parameter_group
from gnn_encoder.training.params import Dev

log = logging.getLogger(__name__)
Answered = Callable[
    [pl.DataFrame], pl.DataFrame
]  # those of some pairs of a dev query and a passage that hold an answer


@dataclass(frozen=True, kw_only=True)
class Given:
    """What GNN-encoder and its control start from and train on.

    Attributes:
        encoder: M_de, which training changes.
        cached: its passage embeddings. *Shape:* (m, d).
        dev_pairs: judged-relevant pairs of the dev queries, columns query, passage.
        answered: where answers judge; None: the pairs are all.
        frozen_layers, batch_tokens: those of section `encoder`.
    """

    encoder: DualEncoder
    examples: Examples
    queries: TextTokens
    passages: TextTokens
    cached: NDArray[Any]
    dev_queries: TextTokens
    dev_pairs: pl.DataFrame
    answered: Answered | None
    dev: Dev
    mgt: MGT
    seed: int
    frozen_layers: int
    batch_tokens: int

    def texts(self, queries: TextTokens) -> Texts:
        """Some queries, and the passages."""
        return Texts(self.encoder, queries, self.passages, batch_tokens=self.batch_tokens)

    def embed(self, queries: TextTokens, rows: Rows | None = None) -> Matrix:
        """E_Q of some queries by the present weights. *Shape:* (n, d)."""
        self.encoder.eval()
        return embed_queries(self.encoder, queries, self.batch_tokens, rows)

    def sample(self, *, whole: int, queries: int) -> DevSample:
        """The dev sample; see `draw_dev`."""
        return draw_dev(
            self.dev_pairs,
            lambda rows: self.embed(self.dev_queries, rows),
            self.cached,
            size=queries if len(self.cached) <= whole else self.dev.queries,
            whole=whole,
            depth=self.dev.depth,
            seed=self.seed,
            answered=self.answered,
        )


def train_gnn_encoder(
    given: Given, data: GraphData, nodes: TextTokens, folder: Path, *, labelled: bool, labelled_edges: bool
) -> tuple[QueryPassageGNN, History]:
    """Phase one, then phase two from the best weights of phase one; both change the encoder and the GNN.

    Phase two scores those weights on the dev sample before it trains, so that its result never scores below them.

    Args:
        nodes: texts of the queries that are nodes.
        folder: where both phases keep what a killed run resumes from.
        labelled: whether the network tells labelled edges from others (`build_graph.labelled`).
        labelled_edges: whether labelled edges inform the corpus (`encode_corpus.labelled_edges`).
    """
    mgt, encoder, seed = given.mgt, given.encoder, given.seed
    gnn = new_gnn(mgt, encoder.dimension, data.features, encoder.settings.similarity, labelled=labelled, seed=seed)
    graphs = open_graphs(data, gnn.config, given.examples, mgt, labelled_edges=labelled_edges)
    # Phase one reads passages from the cache, so that more queries rank a corpus that phase two would have to encode.
    one = given.sample(whole=given.dev.cached_passages, queries=given.dev.cached_queries)
    two = given.sample(whole=given.dev.passages, queries=given.dev.queries)
    history = _train_alone(given, gnn, graphs, supervise(given.examples, one, data.nodes, mgt, seed), nodes, folder)
    joint = supervise(given.examples, two, data.nodes, mgt, seed, epochs=mgt.epochs, after=mgt.gnn_epochs)
    return gnn, history + _train_jointly(given, gnn, graphs, joint, nodes, folder)


def open_graphs(
    data: GraphData, config: GNNConfig, examples: Examples, mgt: MGT, *, labelled_edges: bool
) -> tuple[Neighbourhood, Neighbourhood]:
    """The graph that trains a network, and the one that will inform the corpus, with labelled edges or without."""
    masked = mgt.masking == "mgt"
    without = None if masked else examples.known_pairs()
    most = mgt.max_neighbours
    near = data.neighbourhood(config, labelled_edges=masked, without=without, max_neighbours=most)
    if masked and labelled_edges:
        return near, near
    return near, data.neighbourhood(config, labelled_edges=labelled_edges, max_neighbours=most)


def _train_alone(
    given: Given,
    gnn: QueryPassageGNN,
    graphs: tuple[Neighbourhood, Neighbourhood],
    supervision: Supervision,
    nodes: TextTokens,
    folder: Path,
) -> History:
    """Phase one, by embeddings that M_de computes once."""
    if len(supervision) == 0:
        return []
    of_nodes = torch.from_numpy(given.embed(nodes))
    training = supervision.nodes.training
    return train_on_embeddings(
        gnn,
        graphs,
        supervision,
        queries=of_nodes[:training] if training else torch.from_numpy(given.embed(given.queries)),
        node_queries=of_nodes,
        dev_queries=torch.from_numpy(given.embed(given.dev_queries, supervision.dev.queries)),
        scale=given.encoder.scale,
        mgt=given.mgt,
        folder=folder / "gnn",
    )


def train_on_embeddings(
    gnn: QueryPassageGNN,
    graphs: tuple[Neighbourhood, Neighbourhood],
    supervision: Supervision,
    *,
    queries: Tensor,
    node_queries: Tensor,
    dev_queries: Tensor,
    scale: float,
    mgt: MGT,
    folder: Path,
) -> History:
    """Phase one: the GNN alone learns, by Masked Graph Training on cached embeddings.

    Args:
        graphs: the graph that trains, and the one that will inform the corpus.
        queries, node_queries, dev_queries, scale: as in `GNNTask`.
        folder: where what a killed run resumes from is kept.
    """
    dev_queries = dev_queries.to(device())
    inputs = {"queries": queries, "node_queries": node_queries, "dev_queries": dev_queries, "scale": scale}
    task = GNNTask(gnn, *graphs, supervision, **inputs)  # type: ignore[arg-type]
    if gnn.config.labelled:
        choose_start(gnn, task.reciprocal_ranks)
    _log_rounds("GNN alone", supervision)
    return fit(task, gnn.groups(mgt.gnn_learning_rate), _settings("gnn", "GNN alone", mgt, supervision.seed), folder)


def _train_jointly(
    given: Given,
    gnn: QueryPassageGNN,
    graphs: tuple[Neighbourhood, Neighbourhood],
    supervision: Supervision,
    nodes: TextTokens,
    folder: Path,
) -> History:
    """Phase two, as in the paper: encoder and GNN learn together."""
    if len(supervision) == 0:
        return []
    encoder, mgt = given.encoder, given.mgt
    encoder.freeze_lower(given.frozen_layers)
    task = JointTask(
        encoder,
        given.texts(given.queries),
        given.texts(nodes),
        given.dev_queries,
        gnn,
        *graphs,
        supervision,
        chunk_size=mgt.chunk_size,
        batch_tokens=given.batch_tokens,
    )
    _log_rounds("encoder and GNN", supervision)
    groups = [parameter_group(encoder, mgt.encoder_learning_rate), *gnn.groups(mgt.joint_gnn_learning_rate)]
    return fit(task, groups, _settings("joint", "encoder and GNN", mgt, given.seed), folder / "joint")


def train_control(given: Given, learning_rate: float, folder: Path, *, title: str) -> History:
    """The control: M_de trained further without a graph, on the batches of both phases of GNN-encoder in turn.

    Args:
        title: what the log calls it.
    """
    mgt, encoder = given.mgt, given.encoder
    dev = given.sample(whole=given.dev.passages, queries=given.dev.queries)
    epochs = mgt.gnn_epochs + mgt.epochs
    supervision = supervise(given.examples, dev, NO_NODES, mgt, given.seed, epochs=epochs, masked=False)
    encoder.freeze_lower(given.frozen_layers)
    task = NoGNNTask(
        encoder,
        given.texts(given.queries),
        given.dev_queries,
        supervision,
        chunk_size=mgt.chunk_size,
        batch_tokens=given.batch_tokens,
    )
    groups = [parameter_group(encoder, learning_rate)]
    return fit(task, groups, _settings("no_gnn", title, mgt, given.seed), folder / "no_gnn")


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
) -> DevSample:
    """The fixed dev sample, with a pool that M_de retrieves from its passage matrix, or with the whole small corpus.

    In data that are judged by answers, the relevant passages of a query are BM25's best passage that holds an answer,
    and those of M_de's top passages of this query that hold one. The other passages of the pool count as not relevant.

    Args:
        pairs: judged-relevant pairs of the dev queries, columns query, passage.
        embed: E_Q of some of these queries. *Shape:* (q,) -> (q, d).
        cached: M_de's passage embeddings. *Shape:* (m, d).
        size: most queries.
        whole: a corpus of at most so many passages is ranked whole.
        depth: passages that each query adds to a pool.
    """
    rows, m = sample_queries(pairs, size, seed), len(cached)
    retrieved: Rows = np.empty((len(rows), 0), dtype=np.int64)
    if m > whole or answered is not None:
        retrieved, _ = array_top_k(cached, embed(rows), min(depth, m), name="dev.depth")
    if answered is not None:
        hits = answered(retrieved_pairs(rows, retrieved))
        pairs = pl.concat([pairs, hits]).unique().sort("query", "passage")
    return dev_sample(rows, pairs, ranked(retrieved, m, whole))


def new_gnn(
    mgt: MGT, dimension: int, features: EdgeFeatures | None, similarity: str, *, labelled: bool, seed: int
) -> QueryPassageGNN:
    """An untrained network, which starts near the identity.

    Args:
        dimension: d of the encoder.
        features: the cross-encoder's edge features; None if the network reads none of them.
        similarity: that of the encoder.
        labelled: whether it tells labelled edges from others.
    """
    torch.manual_seed(int(np.random.SeedSequence([seed, 1]).generate_state(1)[0]))
    config = GNNConfig(
        dimension=dimension,
        edge_dimension=dimension if features is None else features.dimension,
        layers=mgt.layers,
        heads=mgt.heads,
        gate=mgt.gate,
        edge_features=mgt.edge_features,
        graph=mgt.graph,
        labelled=labelled,
        similarity=similarity,
    )
    return QueryPassageGNN(config).to(device())


def supervise(
    examples: Examples,
    dev: DevSample,
    nodes: Nodes,
    mgt: MGT,
    seed: int,
    *,
    epochs: int | None = None,
    after: int = 0,
    masked: bool | None = None,
) -> Supervision:
    """The steps of some epochs, of phase one by default, with what they train on. Arguments: `MaskedSchedule`."""
    schedule = MaskedSchedule(
        len(examples),
        epochs=mgt.gnn_epochs if epochs is None else epochs,
        batch_size=mgt.batch_size,
        beta=mgt.beta,
        seed=seed,
        after=after,
        masked=mgt.masking == "mgt" if masked is None else masked,
    )
    return Supervision(examples=examples, schedule=schedule, negatives=mgt.negatives, seed=seed, dev=dev, nodes=nodes)


def _settings(name: str, title: str, mgt: MGT, seed: int) -> Settings:
    limits = {"evaluate_every": mgt.evaluate_every, "patience": mgt.patience}
    return Settings(name=name, title=title, warmup=mgt.warmup, seed=seed, **limits)


def _log_rounds(name: str, supervision: Supervision) -> None:
    schedule = supervision.schedule
    log.info("%s: %d steps, %d rounds a pass over the queries", name, len(schedule), schedule.rounds_per_epoch)
