"""Training GNN-encoder (in two phases) and its control, from the pipeline's artifacts to models."""

import logging
from pathlib import Path

import numpy as np
import polars as pl
import torch

from gnn_encoder.answers.pairs import answered, judged_by_answers
from gnn_encoder.core.judgements import pair_counts, relevant_pairs
from gnn_encoder.core.storage.arrays import check_shape
from gnn_encoder.core.storage.tables import count_rows
from gnn_encoder.encoding.corpus import embed_queries
from gnn_encoder.encoding.texts import open_passages, open_queries
from gnn_encoder.encoding.tokens import TextTokens
from gnn_encoder.graph.artifacts import GraphArtifacts, open_neighbourhood
from gnn_encoder.graph.features import EdgeFeatures
from gnn_encoder.graph.neighbourhood import Neighbourhood
from gnn_encoder.graph.network import GNNConfig, QueryPassageGNN
from gnn_encoder.graph.nodes import NO_NODES, Nodes
from gnn_encoder.index.exact import exact_top_k
from gnn_encoder.mgt.schedule import MaskedSchedule
from gnn_encoder.mgt.start import choose_start
from gnn_encoder.mgt.tasks import GNNTask, JointTask, NoGNNTask, Supervision
from gnn_encoder.models.device import device
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.stage import WORK
from gnn_encoder.pipeline.systems import MAIN, registry, title_of
from gnn_encoder.training.contrastive import Texts
from gnn_encoder.training.dev import DevSample, dev_sample, ranked, retrieved_pairs, sample_queries
from gnn_encoder.training.examples import Examples, read_examples
from gnn_encoder.training.loop import History, Settings, fit, parameter_group

log = logging.getLogger(__name__)


def train_gnn_encoder(
    source: GraphArtifacts, params: Params, scratch: Path
) -> tuple[DualEncoder, QueryPassageGNN, History]:
    """Phase one, then phase two from the best weights of phase one.

    Phase two scores those weights on the dev sample before it trains, so that its result never scores below them.
    """
    mgt, labelled = params.mgt, params.encode_corpus.labelled_edges
    encoder, examples = load_base(source.base, params), read_training_examples(params)
    masked = mgt.masking == "mgt"
    near = _open(source, params, labelled_edges=masked, without=None if masked else examples.known_pairs())
    deployed = near if masked and labelled else _open(source, params, labelled_edges=labelled)
    gnn = new_gnn(params, encoder.dimension, near.features)
    # Phase one reads passages from the cache, so that more queries rank a corpus that phase two would have to encode.
    devs = (
        sample_dev(source.base, params, encoder, whole=whole, queries=queries)
        for whole, queries in (
            (params.dev.cached_passages, params.dev.cached_queries),
            (params.dev.passages, params.dev.queries),
        )
    )
    schedules = (
        _schedule(params, examples, mgt.gnn_epochs, masked=masked),
        _schedule(params, examples, mgt.epochs, masked=masked, after=mgt.gnn_epochs),
    )
    one, two = (
        _supervise(params, examples, dev, encoder, schedule, source.nodes())
        for dev, schedule in zip(devs, schedules, strict=True)
    )
    history = _phase_one(params, encoder, gnn, (near, deployed), one, source.queries, scratch)
    return encoder, gnn, history + _phase_two(params, encoder, gnn, (near, deployed), two, source.queries, scratch)


def _open(
    source: GraphArtifacts, params: Params, *, labelled_edges: bool, without: pl.DataFrame | None = None
) -> Neighbourhood:
    return open_neighbourhood(
        source,
        edge_features=params.mgt.edge_features,
        labelled_edges=labelled_edges,
        without=without,
        max_neighbours=params.mgt.max_neighbours,
        self_loops_only=params.mgt.graph == "self_loops",
        typed=params.build_graph.labelled,
    )


def _phase_one(
    params: Params,
    encoder: DualEncoder,
    gnn: QueryPassageGNN,
    graphs: tuple[Neighbourhood, Neighbourhood],
    supervision: Supervision,
    nodes: Path,
    scratch: Path,
) -> History:
    if len(supervision) == 0:
        return []
    tokens = params.encoder.batch_tokens
    encoder.eval()
    node_queries = torch.from_numpy(embed_queries(encoder, open_queries(nodes, encoder), tokens))
    training = supervision.nodes.training
    queries = node_queries[:training] if training else torch.from_numpy(embed_queries(encoder, _train(encoder), tokens))
    task = GNNTask(
        gnn,
        *graphs,
        supervision,
        queries=queries,
        node_queries=node_queries,
        dev_queries=supervision.dev_queries(encoder, tokens),
        scale=encoder.scale,
    )
    if gnn.config.labelled:
        choose_start(gnn, task.reciprocal_ranks)
    _log_rounds("GNN alone", supervision)
    groups = gnn.groups(params.mgt.gnn_learning_rate)
    return fit(task, groups, _settings("gnn", "GNN alone", params), scratch / WORK / "gnn")


def _phase_two(
    params: Params,
    encoder: DualEncoder,
    gnn: QueryPassageGNN,
    graphs: tuple[Neighbourhood, Neighbourhood],
    supervision: Supervision,
    nodes: Path,
    scratch: Path,
) -> History:
    if len(supervision) == 0:
        return []
    encoder.freeze_lower(params.encoder.frozen_layers)
    passages, size = open_passages(encoder), params.encoder.batch_tokens
    task = JointTask(
        encoder,
        Texts(encoder, _train(encoder), passages, batch_tokens=size),
        Texts(encoder, open_queries(nodes, encoder), passages, batch_tokens=size),
        gnn,
        *graphs,
        supervision,
        chunk_size=params.mgt.chunk_size,
        batch_tokens=size,
    )
    _log_rounds("encoder and GNN", supervision)
    groups = [
        parameter_group(encoder, params.mgt.encoder_learning_rate),
        *gnn.groups(params.mgt.joint_gnn_learning_rate),
    ]
    return fit(task, groups, _settings("joint", "encoder and GNN", params), scratch / WORK / "joint")


def train_control(params: Params, scratch: Path) -> tuple[DualEncoder, History]:
    """The control: M_de trained further without a graph, on the batches of both phases of GNN-encoder in turn."""
    mgt, base = params.mgt, registry().built[MAIN].base
    encoder = load_base(base, params)
    examples = read_training_examples(params)
    dev = sample_dev(base, params, encoder, whole=params.dev.passages, queries=params.dev.queries)
    schedule = _schedule(params, examples, mgt.gnn_epochs + mgt.epochs, masked=False)
    supervision = _supervise(params, examples, dev, encoder, schedule, NO_NODES)
    encoder.freeze_lower(params.encoder.frozen_layers)
    size = params.encoder.batch_tokens
    texts = Texts(encoder, _train(encoder), open_passages(encoder), batch_tokens=size)
    task = NoGNNTask(encoder, texts, supervision, chunk_size=mgt.chunk_size, batch_tokens=size)
    groups = [parameter_group(encoder, params.train_no_gnn.learning_rate)]
    return encoder, fit(task, groups, _settings("no_gnn", title_of("no_gnn"), params), scratch / WORK / "no_gnn")


def load_base(system: str, params: Params) -> DualEncoder:
    """The dual-encoder of `system`, with the dropout of Masked Graph Training, as the start of training."""
    return DualEncoder.load(project.encoder(system), precision=params.encoder.precision, dropout=params.mgt.dropout)


def read_training_examples(params: Params) -> Examples:
    """The denoised examples of the training queries, with the teacher's soft targets if `mgt.targets` asks for them."""
    counts = pair_counts(project.queries("train"), project.COUNTS, project.PASSAGES)
    examples = read_examples(project.EXAMPLES, count_rows(project.PASSAGES)).weighed(counts)
    return examples.taught(project.TARGETS, params.mgt.teacher_weight) if params.mgt.targets == "teacher" else examples


def sample_dev(system: str, params: Params, encoder: DualEncoder, *, whole: int, queries: int) -> DevSample:
    """The fixed dev sample, with a pool that M_de retrieves from its passage matrix, or with the whole small corpus.

    In data that are judged by answers, the relevant passages of a query are BM25's best passage that holds an answer,
    and those of M_de's top passages of this query that hold one. The other passages of the pool count as not relevant.

    Args:
        system: the system that serves as M_de.
        encoder: M_de.
        whole: a corpus of at most so many passages is ranked whole.
        queries: the dev queries that rank it; a pool is ranked by `dev.queries` of them.
    """
    asked = project.queries("dev")
    pairs = relevant_pairs(asked, project.POSITIVES, project.PASSAGES)
    n_passages, cached = count_rows(project.PASSAGES), project.embeddings(system)
    rows = sample_queries(pairs, queries if n_passages <= whole else params.dev.queries, params.seed)
    encoder.eval()
    embedded = embed_queries(encoder, open_queries(asked, encoder), params.encoder.batch_tokens, rows)
    check_shape(cached, (n_passages, encoder.dimension))
    retrieved, _ = exact_top_k(cached, embedded, min(params.dev.depth, n_passages), name="dev.depth")
    if judged_by_answers(asked):
        found = retrieved_pairs(rows, retrieved)
        hits = answered(found, asked, project.PASSAGES, params.evaluate.answers)
        pairs = pl.concat([pairs, hits]).unique().sort("query", "passage")
    return dev_sample(rows, pairs, ranked(retrieved, n_passages, whole))


def new_gnn(params: Params, dimension: int, features: EdgeFeatures | None) -> QueryPassageGNN:
    """An untrained network, which starts near the identity.

    Args:
        dimension: d of the encoder.
        features: the cross-encoder's edge features; None if the network reads none of them.
    """
    mgt = params.mgt
    torch.manual_seed(int(np.random.SeedSequence([params.seed, 1]).generate_state(1)[0]))
    config = GNNConfig(
        dimension=dimension,
        edge_dimension=dimension if features is None else features.dimension,
        layers=mgt.layers,
        heads=mgt.heads,
        gate=mgt.gate,
        edge_features=mgt.edge_features,
        graph=mgt.graph,
        labelled=params.build_graph.labelled,
        similarity=params.encoder.similarity,
    )
    return QueryPassageGNN(config).to(device())


def _train(encoder: DualEncoder) -> TextTokens:
    return open_queries(project.queries("train"), encoder)


def _schedule(params: Params, examples: Examples, epochs: int, *, masked: bool, after: int = 0) -> MaskedSchedule:
    size, beta = params.mgt.batch_size, params.mgt.beta
    return MaskedSchedule(
        len(examples), epochs=epochs, batch_size=size, beta=beta, seed=params.seed, after=after, masked=masked
    )


def _supervise(
    params: Params, examples: Examples, dev: DevSample, encoder: DualEncoder, schedule: MaskedSchedule, nodes: Nodes
) -> Supervision:
    return Supervision(
        examples=examples,
        schedule=schedule,
        negatives=params.mgt.negatives,
        seed=params.seed,
        dev=dev,
        dev_texts=open_queries(project.queries("dev"), encoder),
        nodes=nodes,
    )


def _settings(name: str, title: str, params: Params) -> Settings:
    mgt = params.mgt
    return Settings(
        name=name,
        title=title,
        warmup=mgt.warmup,
        seed=params.seed,
        evaluate_every=mgt.evaluate_every,
        patience=mgt.patience,
    )


def _log_rounds(name: str, supervision: Supervision) -> None:
    schedule = supervision.schedule
    log.info("%s: %d steps, %d rounds a pass over the queries", name, len(schedule), schedule.rounds_per_epoch)
