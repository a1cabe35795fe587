"""Steps of both phases and of the control against one plain computation of Eq. 6-12 over the whole graph."""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnn_encoder.base.matrix import Rows
from gnn_encoder.gnn.graph import EdgeFeatures, Graph, Labels
from gnn_encoder.gnn.masking import Supervision
from gnn_encoder.gnn.neighbourhood import Neighbourhood
from gnn_encoder.gnn.tasks import (
    FACTORS,
    CachedEmbeddings,
    ControlTask,
    CorpusTask,
    GNNTask,
    LearntEmbeddings,
)
from gnn_encoder.gnn.train import graphs_of, new_factor
from gnn_encoder.pipeline.params import MGT, Alone, PhaseOne
from gnn_encoder.text.tokens import open_tokens
from gnn_encoder.train.dev import DevSample, reciprocal_ranks
from gnn_encoder.train.dual_encoder import Texts
from gnn_encoder.train.examples import Examples, TrainingBatch
from gnn_encoder.train.loop import Task

from ..texts import text, write_queries
from .oracle import informed, network

N, M, K, D_E = 8, 12, 3, 5
UNLABELLED = {"unlabelled": 3, "default": 2, "paper": 0}  # queries of the graph without labels
CONFIGS: dict[str, dict[str, Any]] = {
    "default": {"labels": True},
    "paper": {"edge_features": "cross_encoder", "edge_dimension": D_E, "similarity": "dot"},
}
STEPS = range(4)  # one pass: 4 folds of 2 queries


def shake(tensors: Iterable[Tensor], by: float) -> None:
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for tensor in tensors:
            tensor.add_(by * torch.randn(tensor.shape, generator=generator))


class World:
    """Everything a task needs, with caches that are no encoder's: what reads the wrong kind of embedding is caught."""

    def __init__(self, texts: Texts, examples: Examples, kind: str) -> None:
        self.encoder, self.examples, self.texts = texts.encoder.float(), examples, texts
        n = N + UNLABELLED[kind]
        passages = (np.arange(n)[:, None] + np.array([11, 1, 9])) % M  # among them one that each query is labelled with
        graph = Graph(passages=passages, score=np.cos(np.arange(n * K)), n_passages=M)
        d = self.encoder.dimension
        self.cached = np.sin(np.arange(M * d, dtype=np.float32) * 0.7).reshape(M, d) / 4
        draw, by_row = np.random.default_rng(0), np.arange(n)[:, None]
        pairs, loops, of_passages = (
            draw.normal(size=(*shape, D_E)).astype(np.float16) for shape in ((n, M), (n,), (M,))
        )
        place = draw.permutation(M).astype(np.int32)
        features = EdgeFeatures(pairs[by_row, passages].reshape(-1, D_E), loops, of_passages, place)
        read = {"pairs": pairs, "query_loops": loops, "passage_loops": of_passages[place]}
        self.features = {name: torch.from_numpy(values).float() for name, values in read.items()}
        self.gnn = network(dimension=d, **{"labels": False, "similarity": "cosine"} | CONFIGS.get(kind, {}))
        judged = examples.known_pairs().filter(pl.col("passage") != 11)  # of query 2 it is known, but not labelled
        read_features = features if kind == "paper" else None
        self.near = Neighbourhood(graph, self.cached, read_features, Labels(judged, M), sums=self.gnn.config.labels)
        self.fewer = self.near.without(judged)
        shake([*self.gnn.parameters(), *self.gnn.buffers()], 0.1)
        relevant = np.arange(M)[None] % 4 == np.arange(3)[:, None]
        mgt = PhaseOne.model_construct(beta=0.25, negatives=1, masking="mgt")
        phase = Alone.model_construct(steps=len(STEPS), batch_size=2)
        self.supervision = Supervision(examples, DevSample(np.array([1, 4, 6]), np.arange(M), relevant), mgt, phase, 1)

    def embeddings(self) -> tuple[Tensor, Tensor]:
        """Those of the graph's queries, of which the training queries are the first, and of the passages."""
        queries, passages = self.texts.queries(np.arange(self.near.graph.n)), self.texts.passages(np.arange(M))
        return self.encoder.encode_queries(queries), self.encoder.encode_passages(passages)

    def retrieved(self, items: Rows) -> Rows:
        """What the items' queries retrieve: the queries are the examples, in order."""
        return self.near.graph.passages[items].reshape(-1)

    def masked(self, number: int) -> list[int]:
        """Queries that must be out of the graph in a step."""
        return list(self.supervision.items(number)[1].tolist())

    def informed(self, h_q: Tensor, h_p: Tensor, masked: list[int], *, labels: bool = True) -> Tensor:
        """h'_p of the whole corpus from queries h_q, the masked ones cut out of the graph before anything is computed.

        Args:
            labels: False drops labelled edges, and sums.
        """
        graph, judged = self.near.graph, self.near.labels.pairs.rows()
        dropped = [] if labels else judged
        edges = [(q, p) for q in range(graph.n) for p in graph.passages[q].tolist()]
        read = [[p for p in row if (q, p) not in dropped] for q, row in enumerate(graph.passages.tolist())]
        heard: list[list[int]] = [[] for _ in range(M)]
        for e in np.argsort(-graph.score).tolist():
            q, p = edges[e]
            if q not in masked and edges[e] not in dropped:
                heard[p].append(q)
        x = {"h_q": h_q, "h_p": h_p, "cached": torch.from_numpy(self.cached), **self.features}
        summed = [(q, p) for q, p in judged if labels and q not in masked]
        return informed(self.gnn, x, read, heard, labelled=judged, summed=summed)

    def loss(self, batch: TrainingBatch, h_q: Tensor, passages: Tensor) -> Tensor:
        scores = self.encoder.scale * h_q[batch.queries] @ passages[batch.passages].T
        known = torch.from_numpy(self.examples.is_spared(batch.queries[:, None], batch.passages))
        own = torch.eye(*scores.shape, dtype=torch.bool)
        return F.cross_entropy(scores.masked_fill(known & ~own, -torch.inf), torch.arange(len(batch.queries)))

    def dev_score(self, h_q: Tensor, passages: Tensor) -> float:
        dev = self.supervision.dev
        return float(reciprocal_ranks(h_q[dev.queries], passages, dev.relevant).mean())


@pytest.fixture(params=UNLABELLED)
def world(
    tables: Path,
    texts: Texts,
    examples: Examples,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> World:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)  # all is on CPU
    write_queries(tables / "nodes.parquet", [text(20 + i, 2 + i) for i in range(N + UNLABELLED[request.param])])
    queries = open_tokens(tables / "nodes.parquet", texts.encoder.tokenizer, tables, 32)
    return World(replace(texts, query_tokens=queries), examples, request.param)


def gradients(modules: list[nn.Module]) -> list[Tensor]:
    parameters = [parameter for module in modules for parameter in module.parameters()]
    found = [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in parameters]
    for module in modules:
        module.zero_grad()
    return found


# Whether the encoder learns too. With a number the softmax goes over the corpus, of which a sample is drawn if it has
# more passages; then no passage is the encoder's.
TASKS: dict[str, tuple[bool, int | None]] = {
    "alone": (False, None),
    "joint": (True, None),
    "alone_over_a_sample": (False, 6),
    "alone_over_the_corpus": (False, M),
    "joint_over_a_sample": (True, 6),
    "joint_over_the_corpus": (True, M),
}


class Case:
    """A task of the table, trained on `near`, by default on the world's graph, and scored on the world's."""

    def __init__(self, world: World, name: str, patch: pytest.MonkeyPatch, near: Neighbourhood | None = None) -> None:
        self.world, (self.learns, self.whole) = world, TASKS[name]
        n, d = world.near.graph.n, world.encoder.dimension
        self.cached = torch.cos(torch.arange(n * d) * 0.3).view(n, d) / 4, torch.from_numpy(world.cached)
        nodes = self.cached[0].numpy()
        cached = CachedEmbeddings(nodes, nodes[world.supervision.dev.queries])
        self.factor = new_factor(world.encoder.scale)
        if self.whole is not None:
            weights = np.arange(1.0, 1 + len(world.examples.positives.values))  # of the positives, all different
            world.examples = replace(world.examples, weights=weights)
            world.supervision.examples = world.examples
            patch.setattr("gnn_encoder.gnn.masking.WHOLE", self.whole)
            patch.setattr("gnn_encoder.gnn.masking.SAMPLE", M)
        texts = world.texts, world.texts.query_tokens, cached if self.whole else None
        embeddings = LearntEmbeddings(*texts) if self.learns else cached
        learning = world.gnn, (near or world.near, world.near), world.supervision, embeddings
        over_batches = GNNTask(*learning, scale=world.encoder.scale)
        self.task = CorpusTask(*learning, factor=self.factor) if self.whole else over_batches
        own = [nn.ParameterList([self.factor])] if self.whole else []
        self.modules: list[nn.Module] = [*([world.encoder] if self.learns else []), world.gnn, *own]

    def plain(self, labels: bool, number: int) -> Tensor:
        """The loss of a step. Over the corpus the graph's nodes and all passages stay as they are cached."""
        world, (batch, _) = self.world, self.world.supervision.batch(number)
        h_q, h_p = world.embeddings() if self.learns else self.cached
        nodes = self.cached if self.whole else (h_q, h_p)
        informed = world.informed(*nodes, world.masked(number), labels=labels)
        if self.whole is not None:
            return loss_over_the_corpus(world, number, h_q, informed, self.factor.exp())
        return world.loss(batch, h_q, informed)

    def dev_score(self) -> float:
        """All queries are in the graph then."""
        h_q, h_p = self.world.embeddings() if self.learns else self.cached
        return self.world.dev_score(h_q, self.world.informed(*(self.cached if self.whole else (h_q, h_p)), []))


def loss_over_the_corpus(
    world: World, number: int, h_q: Tensor, h_p: Tensor, scale: Tensor, near: Callable[[Rows], Rows] | None = None
) -> Tensor:
    """All positives of a query count, in proportion to their weights, and each of the other passages is a negative.

    A passage of the step's pool counts as often as it stands for one of the corpus.
    """
    lists, weights, loss = world.examples.positives, world.examples.weights, torch.tensor(0.0)
    assert weights is not None
    pool, often = world.supervision.scored(number, near or world.retrieved), torch.zeros(M)
    often[pool.passages] = torch.from_numpy(pool.stands_for).exp()
    items = world.supervision.items(number)[0].tolist()
    for item in items:
        own = slice(lists.offsets[item], lists.offsets[item + 1])
        scores = scale * h_p @ h_q[world.examples.queries[item]]
        likelihood = torch.log(torch.exp(scores) / (often * torch.exp(scores)).sum())
        share = torch.from_numpy(weights[own] / weights[own].sum()).float()
        loss = loss - (likelihood[lists.values[own]] * share).sum() / len(items)
    return loss


def check_steps(task: Task, modules: list[nn.Module], plain: Callable[[int], Tensor]) -> None:
    """Values and gradients of one pass."""
    for number in STEPS:
        loss = task.step(number)
        found, expected = gradients(modules), plain(number)
        expected.backward()
        assert loss == pytest.approx(expected.item(), rel=1e-5)
        wanted = gradients(modules)
        assert any(gradient.abs().max() > 1e-4 for gradient in wanted)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=5e-6)


@pytest.mark.parametrize("name", TASKS)
def test_steps(world: World, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where labelled edges are left out in training alone."""
    for labels, near in ((True, world.near), (False, world.fewer)):
        case = Case(world, name, monkeypatch, near)
        check_steps(case.task, case.modules, partial(case.plain, labels))


@pytest.mark.parametrize("name", ["alone", "joint", "joint_over_the_corpus"])
def test_dev_scores(world: World, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are of the graph that informs the corpus, whatever graph trains, and change no step."""
    case = Case(world, name, monkeypatch, world.fewer)
    shake((world.encoder if case.learns else world.gnn).parameters(), 0.3)
    with torch.no_grad():
        step, expected = case.task.step, case.dev_score()
    before = step(0)
    assert case.task.evaluate() == pytest.approx(expected)
    assert step(0) == before and world.encoder.training


@pytest.mark.parametrize("sampled", [None, 6])
@pytest.mark.parametrize("world", ["unlabelled"], indirect=True)
def test_the_control_over_the_corpus(world: World, monkeypatch: pytest.MonkeyPatch, sampled: int | None) -> None:
    """E_Q alone learns; a corpus too large to be scored whole is drawn, with what is relevant or retrieved by M_de."""
    Case(world, "alone_over_a_sample" if sampled else "alone_over_the_corpus", monkeypatch)
    monkeypatch.setattr("gnn_encoder.gnn.tasks.RETRIEVED", 2)
    passages = torch.from_numpy(world.cached)
    with torch.no_grad():
        best = (world.embeddings()[0] @ passages.half().float().T).topk(2).indices.numpy()

    def near(items: Rows) -> Rows:
        return best[items].reshape(-1)

    def plain(number: int) -> Tensor:
        scale = torch.tensor(world.encoder.scale)
        return loss_over_the_corpus(world, number, world.embeddings()[0], passages, scale, near)

    task = ControlTask(world.texts, world.texts.query_tokens, world.supervision, world.cached.astype(np.float16))
    passages = passages.half().float()
    check_steps(task, [world.encoder], plain)
    with torch.no_grad():
        assert task.evaluate() == pytest.approx(world.dev_score(world.embeddings()[0], passages))


@pytest.mark.parametrize("world", ["paper"], indirect=True)
def test_the_pool_of_a_step(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is relevant, and retrieved by a query that trains, stands for itself; all are stood for."""
    Case(world, "alone_over_a_sample", monkeypatch)
    lists = world.examples.positives
    for number in STEPS:
        pool, (items, _) = world.supervision.scored(number, world.retrieved), world.supervision.items(number)
        positives = [lists.values[slice(*lists.offsets[item : item + 2])] for item in items]
        alone = np.isin(pool.passages, certain := np.unique(np.concatenate([*positives, world.retrieved(items)])))
        assert alone.sum() == len(certain) and not pool.stands_for[alone].any()
        assert np.exp(pool.stands_for).sum() == pytest.approx(M)


@pytest.mark.parametrize("world", ["default"], indirect=True)
def test_the_scores_factor_starts_where_the_loss_is_least(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(world, "alone_over_the_corpus", monkeypatch)
    task = case.task
    assert isinstance(task, CorpusTask) and case.factor.item() == pytest.approx(math.log(world.encoder.scale))
    task.calibrate()
    chosen, losses = case.factor.exp().item(), dict[float, float]()
    for factor in FACTORS:
        torch.nn.init.constant_(case.factor, math.log(factor * world.encoder.scale))
        losses[factor * world.encoder.scale] = task.step(0)
    assert chosen == pytest.approx(min(losses, key=losses.__getitem__))


@pytest.mark.parametrize("world", ["default"], indirect=True)
@pytest.mark.parametrize("masking", ["mgt", "drop_labelled"])
def test_the_graph_that_trains_and_the_one_that_is_deployed(world: World, masking: str) -> None:
    graphs = graphs_of(world.near, world.examples, MGT.model_construct(masking=masking))
    edges = {(q, p) for q, row in enumerate(world.near.graph.passages.tolist()) for p in row}
    trains = edges if masking == "mgt" else edges - {*world.near.labels.pairs.rows(), (2, 11)}
    assert (trains == edges) == (masking == "mgt")
    for near, expected in zip(graphs, (trains, edges), strict=True):
        around = near.around(np.arange(M))
        found = zip(around.queries[around.edge_query].tolist(), around.edge_passage.tolist(), strict=True)
        assert set(found) == expected and (len(around.label_query) > 0) == (expected == edges)


@pytest.mark.parametrize("name", ["joint", "joint_over_the_corpus"])
@pytest.mark.parametrize("world", ["paper"], indirect=True)
def test_a_planted_leak_is_an_error(world: World, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gnn_encoder.gnn.tasks.propagation_mask", lambda n, fold: np.ones(n, dtype=bool))
    with pytest.raises(RuntimeError, match="masked queries can be reached"):
        for number in STEPS:
            Case(world, name, monkeypatch).task.step(number)
