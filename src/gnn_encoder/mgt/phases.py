"""Training GNN-encoder in two phases, and its control."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from torch import Tensor

from gnn_encoder.graph.features import EdgeFeatures
from gnn_encoder.graph.neighbourhood import GraphData, Neighbourhood
from gnn_encoder.graph.network import GNNConfig, QueryPassageGNN
from gnn_encoder.mgt.given import Given
from gnn_encoder.mgt.masking import MaskedSchedule
from gnn_encoder.mgt.start import choose_start, closed_form
from gnn_encoder.mgt.tasks import CorpusTask, GNNTask, JointTask, NoGNNTask, QueryTask, Supervision
from gnn_encoder.pipeline.params import MGT, Passes, TrainNoGNN
from gnn_encoder.text.device import device
from gnn_encoder.text.tokens import TextTokens
from gnn_encoder.train.dev import WHOLE, DevSample
from gnn_encoder.train.dual_encoder import local_share
from gnn_encoder.train.examples import Examples
from gnn_encoder.train.loop import History, Task, fit, parameter_group

log = logging.getLogger(__name__)
HEADS = 4  # of the attention; the paper does not say how many
CACHED_PASSAGES = 50_000  # a corpus of at most so many is ranked whole by phase one, which need not encode it
CACHED_QUERIES = 2_000  # dev queries that rank it
SCALE_RATE = 10.0  # of the learning rate of the scores' factor, in the GNN's


def train_gnn_encoder(
    given: Given, data: GraphData, nodes: TextTokens, folder: Path, *, labelled: bool
) -> tuple[QueryPassageGNN, History]:
    """Phase one, then phase two from the best weights of phase one; both change the encoder and the GNN.

    Phase two scores those weights on the dev sample before it trains, so that its result never scores below them.

    Args:
        nodes: texts of the queries that are nodes.
        folder: where both phases keep what a killed run resumes from.
        labelled: whether the network tells labelled edges from others (`build_graph.labelled`).
    """
    mgt, encoder, seed = given.mgt, given.encoder, given.seed
    gnn = new_gnn(mgt, encoder.dimension, data.features, encoder.settings.similarity, labelled=labelled, seed=seed)
    graphs = open_graphs(data, gnn.config, given.examples, mgt)
    of_corpus = mgt.joint.softmax == "corpus"
    # Phase one reads passages from the cache, so that more queries rank a corpus that phase two would have to encode.
    one = given.sample(whole=CACHED_PASSAGES, queries=CACHED_QUERIES)
    two = one if of_corpus else given.sample(whole=WHOLE, queries=given.dev.queries)
    alone = supervise(given.examples, one, mgt, mgt.alone, seed)
    joint = supervise(given.examples, two, mgt, mgt.joint, seed, after=mgt.alone.epochs)
    history: History = []
    if len(alone) or (len(joint) and of_corpus):
        cached = _embedded(given, nodes, alone, data.graph.training)
        history = train_on_embeddings(gnn, graphs, alone, *cached, scale=encoder.scale, mgt=mgt, folder=folder / "gnn")
    if len(joint):
        learning = gnn, graphs, joint
        task = QueryTask(given, *learning, *cached) if of_corpus else JointTask(given, nodes, *learning)
        history += _train_jointly(task, given, gnn, joint, folder)
    return gnn, history


def open_graphs(
    data: GraphData, config: GNNConfig, examples: Examples, mgt: MGT
) -> tuple[Neighbourhood, Neighbourhood]:
    """The graph that trains a network, with the edges to positives or without, and the one that informs the corpus."""
    whole = data.neighbourhood(config, max_neighbours=mgt.max_neighbours)
    if mgt.masking == "mgt":
        return whole, whole
    positives = pl.concat([data.judged, examples.known_pairs()])
    return data.neighbourhood(config, without=positives, max_neighbours=mgt.max_neighbours), whole


def _embedded(
    given: Given, nodes: TextTokens, supervision: Supervision, training: int
) -> tuple[Tensor, Tensor, Tensor]:
    """E_Q by M_de of the training queries, of the nodes, and of the sampled dev queries."""
    of_nodes = torch.from_numpy(given.embed(nodes))
    return of_nodes[:training], of_nodes, torch.from_numpy(given.embed(given.dev_queries, supervision.dev.queries))


def train_on_embeddings(
    gnn: QueryPassageGNN,
    graphs: tuple[Neighbourhood, Neighbourhood],
    supervision: Supervision,
    queries: Tensor,
    node_queries: Tensor,
    dev_queries: Tensor,
    *,
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
    groups = _groups(task, gnn, mgt.alone.learning_rate)
    _log_rounds("GNN alone", supervision)
    history = fit(task, groups, folder, name="gnn", title="GNN alone", seed=supervision.seed, **_stops(mgt.alone))
    if tried is not None:
        scores = [row["dev_rr10"] for row in history if row["dev_rr10"] is not None]
        tried.restore(gnn, max(scores, default=tried.value))
    return history


def _train_jointly(
    task: JointTask | QueryTask, given: Given, gnn: QueryPassageGNN, supervision: Supervision, folder: Path
) -> History:
    """Phase two, as in the paper: encoder and GNN learn together."""
    encoder, mgt = given.encoder, given.mgt
    encoder.freeze_lower(given.frozen_layers)
    _log_rounds("encoder and GNN", supervision)
    rates = mgt.joint.encoder_learning_rate, mgt.joint.gnn_learning_rate
    groups = [parameter_group(encoder, rates[0]), *_groups(task, gnn, rates[1])]
    return fit(
        task, groups, folder / "joint", name="joint", title="encoder and GNN", seed=given.seed, **_stops(mgt.joint)
    )


def _groups(task: Task, gnn: QueryPassageGNN, rate: float) -> list[dict[str, Any]]:
    """The GNN's parameters, and the scores' factor where that learns, which starts where it fits."""
    groups = gnn.groups(rate)
    if isinstance(task, CorpusTask) and len(task):
        task.calibrate()
        groups.append(parameter_group(task.scale, SCALE_RATE * rate))
    return groups


def train_control(given: Given, section: TrainNoGNN, folder: Path, *, title: str) -> History:
    """The control: M_de trained further without a graph.

    Args:
        title: what the log calls it.
    """
    mgt, encoder = given.mgt, given.encoder
    dev = given.sample(whole=WHOLE, queries=given.dev.queries)
    supervision = supervise(given.examples, dev, mgt, section, given.seed, masked=False)
    encoder.freeze_lower(given.frozen_layers)
    task = NoGNNTask(given, supervision)
    groups = [parameter_group(encoder, section.learning_rate)]
    return fit(task, groups, folder / "no_gnn", name="no_gnn", title=title, seed=given.seed, **_stops(section))


def new_gnn(
    mgt: MGT,
    dimension: int,
    features: EdgeFeatures | None,
    similarity: str,
    *,
    labelled: bool,
    seed: int,
    heads: int = HEADS,
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
        heads=heads,
        gate=mgt.gate,
        edge_features=mgt.edge_features,
        labelled=labelled,
        sums=mgt.sums,
        similarity=similarity,
    )
    return QueryPassageGNN(config).to(device())


def supervise(
    examples: Examples,
    dev: DevSample,
    mgt: MGT,
    phase: Passes,
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
    return Supervision(examples=examples, schedule=schedule, negatives=mgt.negatives, seed=seed, dev=dev)


def _stops(phase: Passes) -> dict[str, int]:
    return {"evaluate_every": phase.evaluate_every, "patience": phase.patience}


def _log_rounds(name: str, supervision: Supervision) -> None:
    schedule = supervision.schedule
    log.info("%s: %d steps, %d rounds a pass over the queries", name, len(schedule), schedule.rounds_per_epoch)
