"""Training GNN-encoder in two phases, and its control."""

import logging
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gnn_encoder.encoding.tokens import TextTokens
from gnn_encoder.graph.features import EdgeFeatures
from gnn_encoder.graph.neighbourhood import GraphData, Neighbourhood
from gnn_encoder.graph.network import GNNConfig, QueryPassageGNN
from gnn_encoder.graph.nodes import NO_NODES, Nodes
from gnn_encoder.mgt.given import Given
from gnn_encoder.mgt.masking import MaskedSchedule
from gnn_encoder.mgt.params import MGT, Phase, TrainNoGNN
from gnn_encoder.mgt.start import choose_start, closed_form
from gnn_encoder.mgt.tasks import CorpusTask, GNNTask, JointTask, NoGNNTask, Supervision
from gnn_encoder.models.device import device
from gnn_encoder.training.contrastive import local_share
from gnn_encoder.training.dev import DevSample
from gnn_encoder.training.examples import Examples
from gnn_encoder.training.loop import History, Settings, fit, parameter_group

log = logging.getLogger(__name__)
SCALE_RATE = 10.0  # of the learning rate of the scores' factor, in the GNN's


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
    alone = supervise(given.examples, one, data.nodes, mgt, mgt.alone, seed)
    history = _train_alone(given, gnn, graphs, alone, nodes, folder)
    joint = supervise(given.examples, two, data.nodes, mgt, mgt.joint, seed, after=mgt.alone.epochs)
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
    embeddings = queries, node_queries, dev_queries.to(device())
    kind = CorpusTask if mgt.alone.softmax == "corpus" else GNNTask
    task = kind(gnn, graphs, supervision, *embeddings, scale=scale)
    tried = None
    if gnn.config.labelled or gnn.config.sums:
        cosine = gnn.config.similarity == "cosine"
        closed = closed_form(graphs[1], node_queries, dev_queries, supervision.dev, cosine=cosine)
        tried = choose_start(gnn, task.reciprocal_ranks, closed)
    groups = gnn.groups(mgt.alone.learning_rate)
    if isinstance(task, CorpusTask) and len(task):
        task.calibrate()
        groups.append(parameter_group(task.scale, SCALE_RATE * mgt.alone.learning_rate))
    _log_rounds("GNN alone", supervision)
    history = fit(task, groups, _settings("gnn", "GNN alone", mgt, mgt.alone, supervision.seed), folder)
    if tried is not None:
        scores = [row["dev_rr10"] for row in history if row["dev_rr10"] is not None]
        tried.restore(gnn, max(scores, default=tried.value))
    return history


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
    task = JointTask(given, nodes, gnn, graphs, supervision)
    _log_rounds("encoder and GNN", supervision)
    groups = [parameter_group(encoder, mgt.joint.encoder_learning_rate), *gnn.groups(mgt.joint.gnn_learning_rate)]
    return fit(task, groups, _settings("joint", "encoder and GNN", mgt, mgt.joint, given.seed), folder / "joint")


def train_control(given: Given, section: TrainNoGNN, folder: Path, *, title: str) -> History:
    """The control: M_de trained further without a graph, on batches as `mgt.joint` has them.

    Args:
        title: what the log calls it.
    """
    mgt, encoder = given.mgt, given.encoder
    dev = given.sample(whole=given.dev.passages, queries=given.dev.queries)
    phase = mgt.joint.model_copy(update={"epochs": section.epochs})
    supervision = supervise(given.examples, dev, NO_NODES, mgt, phase, given.seed, masked=False)
    encoder.freeze_lower(given.frozen_layers)
    task = NoGNNTask(given, supervision)
    groups = [parameter_group(encoder, section.learning_rate)]
    return fit(task, groups, _settings("no_gnn", title, mgt, phase, given.seed), folder / "no_gnn")


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
        sums=mgt.sums,
        similarity=similarity,
    )
    return QueryPassageGNN(config).to(device())


def supervise(
    examples: Examples,
    dev: DevSample,
    nodes: Nodes,
    mgt: MGT,
    phase: Phase,
    seed: int,
    *,
    after: float = 0,
    masked: bool | None = None,
) -> Supervision:
    """The steps of a phase, with what they train on. Arguments: `MaskedSchedule`."""
    schedule = MaskedSchedule(
        len(examples),
        epochs=phase.epochs,
        batch_size=phase.batch_size,
        beta=mgt.beta,
        seed=seed,
        after=after,
        masked=mgt.masking == "mgt" if masked is None else masked,
    )
    if len(schedule):
        local_share(schedule[0].items)  # too many processes are told before the training
    return Supervision(examples=examples, schedule=schedule, negatives=mgt.negatives, seed=seed, dev=dev, nodes=nodes)


def _settings(name: str, title: str, mgt: MGT, phase: Phase, seed: int) -> Settings:
    return Settings(
        name=name,
        title=title,
        warmup=mgt.warmup,
        seed=seed,
        evaluate_every=phase.evaluate_every,
        patience=phase.patience,
    )


def _log_rounds(name: str, supervision: Supervision) -> None:
    schedule = supervision.schedule
    log.info("%s: %d steps, %d rounds a pass over the queries", name, len(schedule), schedule.rounds_per_epoch)
