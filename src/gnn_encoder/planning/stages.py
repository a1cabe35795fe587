"""What each stage of the main branch costs: a function a stage, from the experiment, the data and the machine."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from gnn_encoder.mgt.masking import fold_count
from gnn_encoder.pipeline.declared import Declared
from gnn_encoder.pipeline.params import Params
from gnn_encoder.planning import work
from gnn_encoder.planning.facts import Facts
from gnn_encoder.planning.machine import Machine
from gnn_encoder.training.cross_encoder import PAIRS_AT_A_TIME
from gnn_encoder.training.params import Contrastive

TARGET = "evaluate@gnn_encoder"
DVC = 0.3  # seconds that DVC adds to each stage
FORK = 0.3  # seconds to fork a stage from the stage server of scripts/reproduce.sh
DISTINCT = 0.75  # share of BM25's and the untouched model's top passages of a query that are not in both


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a stage costs, without the time that it needs to start."""

    seconds: float
    disk: float = 0.0  # bytes
    memory: float = work.LIGHT_PROCESS  # bytes at the peak
    loads: int = 0  # models that it loads; one that loads none also starts without torch


@dataclass(frozen=True)
class Setting:
    """What costs depend on."""

    params: Params
    facts: Facts
    machine: Machine

    @property
    def judged(self) -> int:
        """Queries of the runs: dev and test."""
        return self.facts.dev + self.facts.test

    @property
    def nodes(self) -> int:
        """Queries that are nodes of the main graph."""
        return self.facts.nodes(self.params.build_graph.unlabelled)

    @property
    def run_rows(self) -> int:
        """Rows of a system's runs."""
        return self.judged * min(self.params.retrieve.depth, self.facts.passages)

    @property
    def model_bytes(self) -> int:
        """A saved model."""
        return self.machine.model.parameters * work.WEIGHT

    def vectors(self, count: float, size: int) -> float:
        """Bytes of so many vectors with numbers of so many bytes."""
        return count * self.machine.model.dimension * size

    @property
    def matrix(self) -> float:
        """Bytes of a passage matrix."""
        return self.vectors(self.facts.passages, 2 if self.params.cache_passages.dtype == "float16" else 4)

    def queries(self, count: int) -> float:
        """Seconds to encode queries."""
        return work.encoding(count, self.facts.query_tokens, self.params.encoder.query_length, self.machine)

    def passages(self, count: int, limit: int | None = None) -> float:
        """Seconds to encode passages."""
        limit = limit or self.params.encoder.passage_length
        return work.encoding(count, self.facts.passage_tokens, limit, self.machine)

    def pair_seconds(self, count: float) -> float:
        """Seconds to run pairs through M_ce."""
        limit = self.params.train_cross_encoder.max_length
        return work.encoding(round(count), self.facts.pair_tokens, limit, self.machine)

    @property
    def dev_queries(self) -> int:
        """Queries of the dev sample."""
        return min(self.facts.dev, self.params.dev.queries)

    @property
    def dev_candidates(self) -> int:
        """Pairs of a query of the dev sample and a passage that BM25 or the untouched model found for it."""
        return round(2 * DISTINCT * self.dev_queries * min(self.params.dev.depth, self.facts.passages))

    @property
    def dev_pool(self) -> int:
        """Passages that the dev sample ranks."""
        small = self.facts.passages <= self.params.dev.passages
        return self.facts.passages if small else min(self.facts.passages, self.dev_candidates)

    @property
    def evaluation(self) -> float:
        """Seconds of a dev evaluation in a training that moves the encoder."""
        search = work.searching(self.dev_queries, self.dev_pool, self.machine)
        return self.passages(self.dev_pool) + self.queries(self.dev_queries) + search

    def reading(self, arrays: float = 0.0) -> float:
        """Peak memory of a stage that runs a model over texts."""
        return work.reading_memory(self.params.encoder.batch_tokens, self.machine, arrays=arrays)


def cost_of(stage: Declared, setting: Setting) -> Cost | None:
    """The cost of a stage; None if there is no model of it."""
    function = STAGES.get(stage.name)
    return function(stage, setting) if function else None


def start(cost: Cost, machine: Machine, *, served: bool) -> float:
    """Seconds from the start of a stage to its work: the process, its imports, its models, and DVC.

    Args:
        served: whether the stage is forked from the stage server, which has imported everything.
    """
    process = FORK if served else machine.start_model if cost.loads else machine.start
    return DVC + process + cost.loads * machine.load


def branch(stages: Iterable[Declared], target: str = TARGET) -> list[Declared]:
    """The stages that `dvc repro TARGET` runs, in the order in which they can run.

    Artifacts decide: a stage needs those that write a path that it reads, or a part of it.
    """
    every = list(stages)
    order: list[Declared] = []

    def visit(stage: Declared) -> None:
        if stage in order:
            return
        for path in stage.inputs:
            for other in every:
                if other is not stage and any(_overlap(path, out) for out in other.outs):
                    visit(other)
        order.append(stage)

    for stage in every:
        if stage.address == target:
            visit(stage)
    return order


def _overlap(one: Path, other: Path) -> bool:
    return one == other or one in other.parents or other in one.parents


# --- the stages -------------------------------------------------------------------------------------------------------


def _prepare(stage: Declared, at: Setting) -> Cost:
    facts = at.facts
    rows = facts.passages + facts.available + facts.dev + facts.test
    return Cost(seconds=rows * work.PREPARE, disk=0.6 * facts.passages * facts.passage_bytes)


def _index_bm25(stage: Declared, at: Setting) -> Cost:
    facts, words = at.facts, _words(at)
    seconds = work.bm25(0, facts.passages, facts.passage_tokens, 0)
    return Cost(seconds=seconds, disk=8 * words, memory=work.LIGHT_PROCESS + 24 * words)


def _bm25(stage: Declared, at: Setting) -> Cost:
    facts, queries, words = at.facts, at.facts.train + at.judged, _words(at)
    seconds = work.bm25(queries, facts.passages, facts.passage_tokens, at.run_rows)
    return Cost(seconds=seconds, disk=at.run_rows * work.RUN_BYTES, memory=work.LIGHT_PROCESS + 24 * words)


def _together(*parts: Callable[[Declared, Setting], Cost]) -> Callable[[Declared, Setting], Cost]:
    """The cost of a stage that does several things, one after the other."""

    def cost(stage: Declared, at: Setting) -> Cost:
        costs = [part(stage, at) for part in parts]
        return Cost(
            seconds=sum(one.seconds for one in costs),
            disk=sum(one.disk for one in costs),
            memory=max(one.memory for one in costs),
            loads=sum(one.loads for one in costs),
        )

    return cost


def _words(at: Setting) -> float:
    return at.facts.passages * float(at.facts.passage_tokens.counts.mean())


def _light(seconds: float) -> Callable[[Declared, Setting], Cost]:
    return lambda stage, at: Cost(seconds=seconds)


def _untouched(stage: Declared, at: Setting) -> Cost:
    return Cost(seconds=0.5, disk=at.model_bytes, memory=at.reading(), loads=1)


def _train_dual_encoder(stage: Declared, at: Setting) -> Cost:
    section: Contrastive = at.params.value(stage.item["section"])
    return _contrastive(at, section, work.schedule(at.facts.train, section), at.params.dev.evaluations)


def _train_no_gnn(stage: Declared, at: Setting) -> Cost:
    mgt = at.params.mgt
    batches, size = gnn_batches(at.params, at.facts.train)
    shape = work.Steps(steps=(mgt.gnn_epochs + mgt.epochs) * batches, queries=size, passages=size * (1 + mgt.negatives))
    return _contrastive(at, mgt, shape, shape.steps // mgt.evaluate_every + 2)


def _contrastive(at: Setting, section: object, shape: work.Steps, evaluations: int) -> Cost:
    chunk: int = section.chunk_size  # type: ignore[attr-defined]
    encoder, facts = at.params.encoder, at.facts
    lengths = (encoder.query_length, encoder.passage_length)
    seconds = work.steps(shape, facts.query_tokens, facts.passage_tokens, lengths, chunk, at.machine)
    texts = min(shape.passages, chunk)
    width = facts.passage_tokens.widest(texts, encoder.passage_length)
    trained = at.machine.model.layers - encoder.frozen_layers
    return Cost(
        seconds=seconds + evaluations * at.evaluation,
        disk=at.model_bytes,
        memory=work.training_memory(texts, width, at.machine, trained),
        loads=1,
    )


def _cache_passages(stage: Declared, at: Setting) -> Cost:
    limit = None
    if stage.name == "untouched":
        limit = min(at.params.untouched.passage_length or at.machine.model.tokens, at.machine.model.tokens)
    return Cost(seconds=at.passages(at.facts.passages, limit), disk=at.matrix, memory=at.reading(), loads=1)


def _mine_candidates(stage: Declared, at: Setting) -> Cost:
    facts = at.facts
    rows = facts.train * at.params.mine_candidates.depth
    seconds = at.queries(facts.train) + work.searching(facts.train, facts.passages, at.machine)
    return Cost(seconds=seconds, disk=6 * rows, memory=at.reading(at.vectors(facts.train, 4) + 12 * rows), loads=1)


def _train_cross_encoder(stage: Declared, at: Setting) -> Cost:
    section = at.params.train_cross_encoder
    limit, model = section.max_length, at.machine
    seconds = work.pair_steps(
        at.facts.train, section.epochs, section.batch_size, section.negatives, at.facts.pair_tokens, limit, model
    )
    texts = min(PAIRS_AT_A_TIME, section.batch_size * (1 + section.negatives))
    memory = work.training_memory(texts, at.facts.pair_tokens.widest(texts, limit), model, model.model.layers)
    seconds += at.params.dev.evaluations * at.pair_seconds(at.dev_candidates)
    return Cost(seconds=seconds, disk=at.model_bytes, memory=memory, loads=1)


def _denoise(stage: Declared, at: Setting) -> Cost:
    pairs = round(at.facts.train * (at.params.denoise.candidates + at.facts.labels_a_query))
    return Cost(seconds=at.pair_seconds(pairs), disk=8 * pairs, memory=at.reading(), loads=1)


def _build_graph(stage: Declared, at: Setting) -> Cost:
    facts, edges = at.facts, at.nodes * at.params.build_graph.k
    seconds = at.queries(at.nodes) + work.searching(at.nodes, facts.passages, at.machine)
    return Cost(seconds=seconds, disk=8 * edges, memory=at.reading(at.vectors(at.nodes, 4) + 12 * edges), loads=1)


def _embed_edges(stage: Declared, at: Setting) -> Cost:
    if at.params.mgt.edge_features != "cross_encoder":
        return Cost(seconds=0.1)
    pairs = at.nodes * (at.params.build_graph.k + 1) + _retrieved(at)
    return Cost(seconds=at.pair_seconds(pairs), disk=at.vectors(pairs, work.EDGE_BYTES), memory=at.reading(), loads=1)


def _retrieved(at: Setting) -> int:
    """Passages that some query retrieved: at most as many as there are edges."""
    return min(at.facts.passages, at.nodes * at.params.build_graph.k)


def _train_mgt(stage: Declared, at: Setting) -> Cost:
    mgt, facts, k = at.params.mgt, at.facts, at.params.build_graph.k
    batches, size = gnn_batches(at.params, facts.train)
    passages = size * (1 + mgt.negatives)
    share = at.nodes * k / max(1, _retrieved(at))  # edges of a passage that has any
    share = min(share, mgt.max_neighbours or share)
    scored = (mgt.gnn_epochs * batches) // mgt.evaluate_every + 2
    one = work.gnn_steps(mgt.gnn_epochs * batches, passages, share, k, at.nodes, at.machine)
    whole = facts.passages <= at.params.dev.cached_passages
    pool = facts.passages if whole else at.dev_pool
    dev = work.gnn_steps(scored, pool, share, k, at.nodes, at.machine) / 3  # forward alone
    seconds = at.queries(at.nodes + facts.dev) + one + dev
    near = min(passages * share, at.nodes)
    if mgt.epochs:  # encoder and GNN: the batch's queries and passages, and the queries around these
        shape = work.Steps(steps=mgt.epochs * batches, queries=round(size + near), passages=passages)
        seconds += _contrastive(at, mgt, shape, shape.steps // mgt.evaluate_every + 2).seconds + mgt.epochs * one / max(
            1, mgt.gnn_epochs
        )
    features = 1 if mgt.edge_features == "none" else 2
    held = at.vectors(near * (k + 1) * (1 + features), 4)
    disk = float(at.model_bytes)
    if mgt.edge_features == "cross_encoder":  # unpacked into the scratch place
        disk += at.vectors(at.nodes * (k + 1) + _retrieved(at), work.EDGE_BYTES)
    memory = work.training_memory(0, 0, at.machine, 1) + 3 * held
    return Cost(seconds=seconds, disk=disk, memory=memory, loads=1)


def gnn_batches(params: Params, queries: int) -> tuple[int, int]:
    """Steps of a pass of Masked Graph Training over the queries, and the queries of a step."""
    rounds = fold_count(params.mgt.beta)
    fold = queries / rounds
    batches = max(1, round(fold / params.mgt.batch_size))
    return rounds * batches, max(1, round(fold / batches))


def _encode_corpus(stage: Declared, at: Setting) -> Cost:
    facts, k = at.facts, at.params.build_graph.k
    edges = at.nodes * (2 * k + 1)
    seconds = at.queries(at.nodes) + edges * at.machine.gnn_edge / 3 + facts.passages * work.GNN_PASSAGE
    if at.params.mgt.epochs:  # the encoder has changed
        seconds += at.passages(facts.passages)
    return Cost(seconds=seconds, disk=at.matrix, memory=at.reading(2 * at.vectors(at.nodes, 4)), loads=1)


def _build_index(stage: Declared, at: Setting) -> Cost:
    index = at.vectors(at.facts.passages, 4)
    return Cost(seconds=0.2 + index / 2e8, disk=index, memory=work.LIGHT_PROCESS + index)


def _retrieve(stage: Declared, at: Setting) -> Cost:
    seconds = at.queries(at.judged) + work.searching(at.judged, at.facts.passages, at.machine)
    index = at.vectors(at.facts.passages, 4)
    rows = at.run_rows
    return Cost(
        seconds=seconds + rows * work.RUN_ROW, disk=rows * work.RUN_BYTES, memory=at.reading(index + 12 * rows), loads=1
    )


def _reorder(stage: Declared, at: Setting) -> Cost:
    """Baselines of the query log, and the hybrid: they look up and write runs."""
    seconds = at.queries(at.facts.train + at.judged) + 4 * at.run_rows * work.RUN_ROW
    return Cost(seconds=seconds, disk=at.run_rows * work.RUN_BYTES, memory=at.reading(64 * at.run_rows), loads=1)


def _shift_passages(stage: Declared, at: Setting) -> Cost:
    seconds = at.queries(at.facts.train + at.facts.dev)
    seconds += 9 * work.searching(min(2000, at.facts.dev), at.facts.passages, at.machine)
    return Cost(seconds=seconds + 1, disk=at.matrix, memory=at.reading(2 * at.matrix), loads=1)


def _slices(stage: Declared, at: Setting) -> Cost:
    seconds = at.queries(at.facts.train + at.facts.test)
    return Cost(seconds=seconds + 1, memory=at.reading(at.vectors(at.facts.train, 4)), loads=1)


def _measure(stage: Declared, at: Setting) -> Cost:
    return Cost(seconds=1 + 1.5 * at.run_rows * work.RUN_ROW, memory=work.LIGHT_PROCESS + 200 * at.run_rows)


STAGES: dict[str, Callable[[Declared, Setting], Cost]] = {
    "prepare": _prepare,
    "untouched": _together(_untouched, _cache_passages, _build_index, _retrieve),
    "bm25": _together(_index_bm25, _bm25, _light(0.5)),
    "train_dual_encoder": _train_dual_encoder,
    "cache_passages": _cache_passages,
    "mine_candidates": _mine_candidates,
    "train_cross_encoder": _train_cross_encoder,
    "denoise": _denoise,
    "train_no_gnn": _train_no_gnn,
    "build_graph": _build_graph,
    "embed_edges": _embed_edges,
    "train_mgt": _train_mgt,
    "encode_corpus": _encode_corpus,
    "build_index": _together(_build_index, _retrieve),
    "baselines": _together(_shift_passages, _build_index, _retrieve, _reorder, _reorder, _reorder),
    "evaluate": _together(*[_measure] * 10, _slices, _light(5.0)),
}
