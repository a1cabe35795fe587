"""Steps of both phases and of the control against one plain computation of Eq. 6-12 over the whole graph."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnn_encoder.encoding.tokens import open_tokens
from gnn_encoder.graph.neighbourhood import Neighbourhood
from gnn_encoder.graph.network import GNNConfig, QueryPassageGNN
from gnn_encoder.graph.nodes import Nodes
from gnn_encoder.graph.structure import Graph
from gnn_encoder.mgt.given import Given
from gnn_encoder.mgt.masking import MaskedSchedule
from gnn_encoder.mgt.params import MGT, Joint
from gnn_encoder.mgt.tasks import (
    FACTORS,
    CorpusTask,
    GNNTask,
    JointTask,
    NoGNNTask,
    QueryTask,
    Supervision,
    subgraph_of,
)
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.training.contrastive import Texts
from gnn_encoder.training.dev import DevSample
from gnn_encoder.training.dev_score import reciprocal_ranks
from gnn_encoder.training.examples import Examples, TrainingBatch
from gnn_encoder.training.params import Dev

from ..texts import text, write_queries
from ..training.conftest import tiny_encoder

N, M, K = 8, 12, 3
# Of the nodes that are no training queries, the passage that each was generated from; -1: an unlabelled query.
SOURCES = {
    "training": [],
    "both": [0, 5, 11, 3],
    "generated": [4, 0, 11, 8, 1],
    "unlabelled": [-1, -1, -1],
    "all": [-1, -1, 11, 3],
}
STEPS = range(4)  # one pass: 4 folds of 2 queries


class World:
    """Everything a task needs, with caches that are no encoder's: what reads the wrong kind of embedding is caught."""

    def __init__(self, model: Path, texts: Texts, node_texts: Texts, examples: Examples, kind: str) -> None:
        self.encoder, queries = tiny_encoder(model).float(), texts.query_tokens
        self.texts, self.node_texts, self.examples = texts, node_texts, examples
        self.nodes = Nodes(training=0 if kind == "generated" else N, sources=np.array(SOURCES[kind], dtype=np.int32))
        n = len(self.nodes)
        passages = (np.arange(n)[:, None] * 5 + np.arange(K) * 2) % M
        graph = Graph(passages=passages, score=np.linspace(1, 0, n * K), n_passages=M)
        d = self.encoder.dimension
        self.cached = np.sin(np.arange(M * d, dtype=np.float32) * 0.7).reshape(M, d) / 4
        self.given = Given(
            encoder=self.encoder,
            examples=examples,
            queries=queries,
            passages=texts.passage_tokens,
            cached=self.cached,
            dev_queries=queries,
            dev_pairs=pl.DataFrame(),
            dev_own=pl.DataFrame(),
            answered=None,
            dev=Dev.model_construct(),
            mgt=MGT.model_construct(joint=Joint.model_construct(chunk_size=3)),
            seed=1,
            frozen_layers=0,
            batch_tokens=64,
        )
        self.near, self.fewer = (
            Neighbourhood(
                graph,
                self.cached,
                None,
                keep_edge=kept,
                max_neighbours=None,
                self_loops_only=False,
                device=torch.device("cpu"),
            )
            for kept in (None, np.arange(n * K) % 3 == 0)
        )
        config = GNNConfig(
            dimension=d,
            edge_dimension=None,
            layers=2,
            heads=2,
            gate="learned",
            edge_features="product",
            graph="full",
            labelled=False,
            similarity="cosine",
        )
        self.gnn = QueryPassageGNN(config)
        generator = torch.Generator().manual_seed(5)
        with torch.no_grad():
            for parameter in self.gnn.parameters():
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
        relevant = np.arange(M)[None] % 4 == np.arange(3)[:, None]
        self.supervision = Supervision(
            examples=examples,
            schedule=MaskedSchedule(N, epochs=1, batch_size=2, beta=0.25, seed=1),
            negatives=1,
            seed=1,
            dev=DevSample(np.array([1, 4, 6]), np.arange(M), relevant),
            nodes=self.nodes,
        )

    def embeddings(self) -> tuple[Tensor, Tensor]:
        encoder, texts = self.encoder, self.texts
        return encoder.encode_queries(texts.queries(np.arange(N))), encoder.encode_passages(
            texts.passages(np.arange(M))
        )

    def node_embeddings(self) -> Tensor:
        return self.encoder.encode_queries(self.node_texts.queries(np.arange(len(self.nodes))))

    def masked(self, number: int) -> list[int]:
        """Nodes that must be out of the graph in a step, query by query."""
        fold = self.examples.queries[self.supervision.schedule[number].fold].tolist()
        relevant = {key % M for key in self.examples.known.tolist() if key // M in fold}
        generated = [self.nodes.training + i for i, p in enumerate(self.nodes.sources.tolist()) if p in relevant]
        return [q for q in fold if self.nodes.training] + generated

    def informed(self, h_q: Tensor, h_p: Tensor, masked: list[int]) -> Tensor:
        """h'_p of the whole corpus from nodes h_q, the masked ones cut out of the graph before anything is computed."""
        kept = np.setdiff1d(np.arange(len(self.nodes)), masked)
        passages = self.near.graph.passages
        neighbours = torch.from_numpy(self.cached)[torch.from_numpy(passages[kept]).long()]
        h_q_prime = self.gnn.interactive_queries(h_q[kept], neighbours)
        edges = [(q, p) for p in range(M) for q in range(len(kept)) if p in passages[kept[q]]]
        query, passage = torch.tensor(edges).T
        return self.gnn.interactive_passages(h_p, h_q_prime, query, passage, h_q=h_q[kept])

    def loss(self, batch: TrainingBatch, h_q: Tensor, passages: Tensor) -> Tensor:
        scores = self.encoder.scale * h_q[batch.queries] @ passages[batch.passages].T
        known = torch.from_numpy(self.examples.is_spared(batch.queries[:, None], batch.passages))
        own = torch.eye(*scores.shape, dtype=torch.bool)
        return F.cross_entropy(scores.masked_fill(known & ~own, -torch.inf), torch.arange(len(batch.queries)))

    def dev_score(self, h_q: Tensor, passages: Tensor) -> float:
        dev = self.supervision.dev
        return float(reciprocal_ranks(h_q[dev.queries], passages, dev.relevant).mean())


@pytest.fixture(params=SOURCES)
def world(tiny_model: Path, tables: Path, texts: Texts, examples: Examples, request: pytest.FixtureRequest) -> World:
    own = [] if request.param == "generated" else [text(20 + i, 2 + i) for i in range(N)]
    others = [text(40 + i, 3 + i) for i in range(len(SOURCES[request.param]))]
    write_queries(tables / "nodes.parquet", own + others)
    encoder = tiny_encoder(tiny_model)
    node_texts = Texts(encoder, open_tokens(tables / "nodes.parquet", encoder.tokenizer, tables), texts.passage_tokens)
    return World(tiny_model, texts, node_texts, examples, request.param)


def gradients(modules: list[nn.Module]) -> list[Tensor]:
    found = []
    for module in modules:
        for parameter in module.parameters():
            found.append(torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone())
            parameter.grad = None
    return found


def assert_same(found: list[Tensor], expected: list[Tensor]) -> None:
    assert any(gradient.abs().max() > 1e-4 for gradient in expected)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=5e-6)


def joint_task(world: World, near: Neighbourhood | None = None) -> JointTask:
    """Trains on `near`, by default on the world's graph, and is scored on the world's."""
    graphs = near or world.near, world.near
    return JointTask(world.given, world.node_texts.query_tokens, world.gnn, graphs, world.supervision)


@pytest.mark.parametrize("number", STEPS)
def test_joint_step(world: World, number: int) -> None:
    loss = joint_task(world).step(number)
    found = gradients([world.encoder, world.gnn])
    batch, _ = world.supervision.batch(number)
    h_q, h_p = world.embeddings()
    expected = world.loss(batch, h_q, world.informed(world.node_embeddings(), h_p, world.masked(number)))
    expected.backward()
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    assert_same(found, gradients([world.encoder, world.gnn]))


def gnn_task(
    world: World, queries: Tensor, near: Neighbourhood | None = None, kind: type[GNNTask] = GNNTask
) -> GNNTask:
    graphs = near or world.near, world.near
    embeddings = queries, world.node_embeddings().detach(), queries[world.supervision.dev.queries]
    return kind(world.gnn, graphs, world.supervision, *embeddings, scale=world.encoder.scale)


@pytest.mark.parametrize("number", STEPS)
def test_step_of_the_gnn_alone(world: World, number: int) -> None:
    h_q, h_p = world.embeddings()[0].detach(), torch.from_numpy(world.cached)
    loss = gnn_task(world, h_q).step(number)
    found = gradients([world.gnn])
    batch, _ = world.supervision.batch(number)
    informed = world.informed(world.node_embeddings().detach(), h_p, world.masked(number))
    expected = world.loss(batch, h_q, informed)
    expected.backward()
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    assert_same(found, gradients([world.gnn]))


def weigh(world: World) -> None:
    """Give each positive of a query another weight."""
    weights = np.arange(1, 1 + len(world.examples.positives.values), dtype=np.float64)
    world.examples = replace(world.examples, weights=weights)
    world.given = replace(world.given, examples=world.examples)
    world.supervision = replace(world.supervision, examples=world.examples)


def loss_over_the_corpus(world: World, number: int, h_q: Tensor, informed: Tensor) -> Tensor:
    """All positives of a query count, in proportion to their weights, and each of the other passages is a negative."""
    lists, weights, loss = world.examples.positives, world.examples.weights, torch.tensor(0.0)
    assert weights is not None
    items = world.supervision.schedule[number].items.tolist()
    for item in items:
        own = slice(lists.offsets[item], lists.offsets[item + 1])
        scores = world.encoder.scale * informed @ h_q[world.examples.queries[item]]
        likelihood = torch.log(torch.exp(scores) / torch.exp(scores).sum())
        share = torch.from_numpy(weights[own] / weights[own].sum()).float()
        loss = loss - (likelihood[lists.values[own]] * share).sum() / len(items)
    return loss


@pytest.mark.parametrize("number", STEPS)
def test_step_of_the_gnn_alone_over_the_corpus(world: World, number: int) -> None:
    weigh(world)
    h_q, h_p = world.embeddings()[0].detach(), torch.from_numpy(world.cached)
    loss = gnn_task(world, h_q, kind=CorpusTask).step(number)
    found = gradients([world.gnn])
    informed = world.informed(world.node_embeddings().detach(), h_p, world.masked(number))
    expected = loss_over_the_corpus(world, number, h_q, informed)
    expected.backward()
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    assert_same(found, gradients([world.gnn]))


def query_task(world: World) -> QueryTask:
    graphs, h_q = (world.near, world.near), world.embeddings()[0].detach()
    embeddings = h_q, world.node_embeddings().detach(), h_q[world.supervision.dev.queries]
    return QueryTask(world.given, world.gnn, graphs, world.supervision, *embeddings)


@pytest.mark.parametrize("number", STEPS)
def test_step_of_the_query_encoder_over_the_corpus(world: World, number: int) -> None:
    """E_Q learns by the queries of the batch alone: nodes are constants, and E_P is a copy that stays."""
    weigh(world)
    loss = query_task(world).step(number)
    assert all(parameter.grad is None for parameter in world.encoder.passage.parameters())
    found = gradients([world.encoder.query, world.gnn])
    nodes, h_p = world.node_embeddings().detach(), torch.from_numpy(world.cached)
    informed = world.informed(nodes, h_p, world.masked(number))
    expected = loss_over_the_corpus(world, number, world.embeddings()[0], informed)
    expected.backward()
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    assert_same(found, gradients([world.encoder.query, world.gnn]))


def test_dev_score_of_the_query_encoder_is_of_the_graph_as_it_was(world: World) -> None:
    task, before, nodes = query_task(world), world.embeddings()[0].detach(), world.node_embeddings().detach()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in world.encoder.query.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
        h_q, h_p = world.embeddings()[0], torch.from_numpy(world.cached)
        expected = world.dev_score(h_q, world.informed(nodes, h_p, []))
        assert world.dev_score(before, world.informed(nodes, h_p, [])) != expected
    step = task.step(0)
    assert task.evaluate() == pytest.approx(expected)
    assert task.step(0) == step  # it trains on the same embeddings as before


def test_the_scores_factor_starts_where_the_loss_is_least(world: World) -> None:
    h_q = world.embeddings()[0].detach()
    task = gnn_task(world, h_q, kind=CorpusTask)
    assert isinstance(task, CorpusTask)
    task.calibrate()
    chosen, losses = task.scale().item(), dict[float, float]()
    for factor in FACTORS:
        torch.nn.init.constant_(task.scale.log, math.log(factor * world.encoder.scale))
        losses[factor * world.encoder.scale] = task.step(0)
    assert chosen == pytest.approx(min(losses, key=losses.__getitem__))
    assert task.scale.log.grad is not None and task.scale.log.grad.abs() > 0


@pytest.mark.parametrize("number", STEPS)
def test_step_of_the_control(world: World, number: int) -> None:
    loss = NoGNNTask(world.given, world.supervision).step(number)
    found = gradients([world.encoder])
    expected = world.loss(world.supervision.batch(number)[0], *world.embeddings())
    expected.backward()
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    assert_same(found, gradients([world.encoder]))


def test_dev_scores(world: World) -> None:
    """All queries are in the graph then."""
    nobody: list[int] = []
    with torch.no_grad():
        h_q, h_p = world.embeddings()
        nodes = world.node_embeddings()
        cached = torch.from_numpy(world.cached)
        joint = world.dev_score(h_q, world.informed(nodes, h_p, nobody))
        alone = world.dev_score(h_q, world.informed(nodes, cached, nobody))
        plain = world.dev_score(h_q, h_p)
    assert joint_task(world).evaluate() == pytest.approx(joint)
    assert gnn_task(world, h_q).evaluate() == pytest.approx(alone)
    assert NoGNNTask(world.given, world.supervision).evaluate() == pytest.approx(plain)
    assert len({joint, alone, plain}) > 1


def test_another_graph_may_train_than_is_deployed(world: World) -> None:
    """As where labelled edges are left out in training alone: the dev score is of the graph that informs the corpus."""
    h_q = world.embeddings()[0].detach()
    assert gnn_task(world, h_q, world.fewer).evaluate() == gnn_task(world, h_q).evaluate()
    assert joint_task(world, world.fewer).evaluate() == joint_task(world).evaluate()
    assert gnn_task(world, h_q, world.fewer).step(0) != gnn_task(world, h_q).step(0)
    assert joint_task(world, world.fewer).step(0) != joint_task(world).step(0)


def test_every_query_trains_once_a_pass_and_never_informs_its_batch(world: World) -> None:
    trained = []
    for number in STEPS:
        batch, masked = world.supervision.batch(number)
        subgraph, position = subgraph_of(world.near, batch.passages, masked)
        assert sorted(masked.tolist()) == sorted(world.masked(number))
        assert not set(subgraph.queries) & set(world.masked(number))
        if world.nodes.training:
            assert set(batch.queries) <= set(masked)
        assert (subgraph.passages[position] == batch.passages).all()
        trained += batch.queries.tolist()
    assert sorted(trained) == list(range(N))


def test_a_planted_leak_is_an_error(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gnn_encoder.mgt.tasks.propagation_mask", lambda n, fold: np.ones(n, dtype=bool))
    with pytest.raises(RuntimeError, match="masked queries can be reached"):
        for number in STEPS:
            joint_task(world).step(number)


def test_encoder_modes(world: World) -> None:
    """Steps run with dropout on, dev scores without."""
    task = joint_task(world)
    assert world.encoder.training
    task.evaluate()
    assert isinstance(world.encoder, DualEncoder) and world.encoder.training
