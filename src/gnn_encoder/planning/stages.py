"""What each stage of the main branch does, in units of work that a machine's speeds make seconds of."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Self

from gnn_encoder.mgt.masking import fold_count
from gnn_encoder.pipeline.declared import Declared
from gnn_encoder.pipeline.params import Params
from gnn_encoder.planning.facts import Facts
from gnn_encoder.planning.machine import Machine, Speeds
from gnn_encoder.training.cross_encoder import PAIRS_AT_A_TIME
from gnn_encoder.training.examples import steps_of

DISTINCT = 0.75  # share of BM25's and the untouched model's top passages of a query that are not in both
DVC = 0.3  # seconds that DVC adds to each stage
ROW = 2e-6  # seconds to write or read and judge a row of a TREC run
RECORD = 5e-5  # to read, check and write a row of the data
RUN_BYTES = 12  # of a row of a TREC run, compressed
LIGHT = 150 * 2**20  # bytes of a process without torch
HEAVY = 450 * 2**20  # and of one with it


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a stage does. The first fields count units of `Speeds`, under the same names."""

    read: float = 0.0
    train: float = 0.0
    step: float = 0.0
    train_pair: float = 0.0
    step_pair: float = 0.0
    gnn: float = 0.0
    search: float = 0.0
    index: float = 0.0
    bm25: float = 0.0
    load: float = 0.0
    other: float = 0.0  # seconds
    disk: float = 0.0  # bytes
    memory: float = LIGHT  # bytes at the peak

    def __add__(self, other: Self) -> Self:
        """Both, one after the other."""
        sums = {one.name: getattr(self, one.name) + getattr(other, one.name) for one in fields(self)}
        return type(self)(**sums | {"memory": max(self.memory, other.memory)})

    def seconds(self, speeds: Speeds) -> float:
        """How long it takes, without the start of its process."""
        kinds = (one.name for one in fields(speeds) if one.name != "start")
        return self.other + float(sum(getattr(self, kind) * getattr(speeds, kind) for kind in kinds))


@dataclass(frozen=True)
class Setting:
    """What work depends on."""

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
    def edges(self) -> int:
        """Edges between queries and passages of the main graph."""
        return self.nodes * self.params.build_graph.k

    def vectors(self, count: float, size: int) -> float:
        """Bytes of so many vectors with numbers of so many bytes."""
        return count * self.machine.model.dimension * size

    def queries(self, count: float) -> float:
        """Tokens of so many queries."""
        return count * self.facts.query_tokens.mean(self.params.encoder.query_length)

    def passages(self, count: float, limit: int | None = None) -> float:
        """Tokens of so many passages."""
        return count * self.facts.passage_tokens.mean(limit or self.params.encoder.passage_length)

    def pairs(self, count: float) -> float:
        """Tokens of so many pairs for M_ce."""
        return count * self.facts.pair_tokens.mean(self.params.train_cross_encoder.max_length)

    def reading(self, arrays: float = 0.0, **work: float) -> Work:
        """Work of a process that holds a model, its activations for an inference batch, and some arrays."""
        held = 4 * self.machine.model.parameters + 20 * self.vectors(self.params.encoder.batch_tokens, 4)
        return Work(load=1, memory=HEAVY + held + arrays, **work)

    def training(self, texts: int, length: int, layers: int, **work: float) -> Work:
        """Work of a process that trains a model.

        Its memory is that of weights, gradients, AdamW's moments, and the activations of `texts` texts of `length`
        tokens in so many `layers`. A layer keeps about 17 vectors a token and 2.5 attention maps, in float32 (half of
        what Korthikanti et al. 2022, arXiv:2205.05198, count in bytes for 2 bytes a number).
        """
        model = self.machine.model
        token = 17 * model.dimension + 2.5 * model.heads * length
        memory = HEAVY + 16 * model.parameters + 4 * texts * length * token * max(1, layers)
        return Work(load=1, memory=memory, disk=4 * model.parameters, **work)

    def dev(self, times: int) -> Work:
        """So many evaluations of an encoder that is being trained: it ranks the pool for the dev sample."""
        dev, facts = self.params.dev, self.facts
        asked = min(facts.dev, dev.queries)
        pool = facts.passages if facts.passages <= dev.passages else min(facts.passages, dev_pairs(self))
        return Work(read=times * (self.passages(pool) + self.queries(asked)), search=times * asked * pool)


def dev_pairs(at: Setting) -> int:
    """Pairs of a query of the dev sample and a passage that BM25 or the untouched model found for it."""
    depth = min(at.params.dev.depth, at.facts.passages)
    return round(2 * DISTINCT * min(at.facts.dev, at.params.dev.queries) * depth)


def batches_of(params: Params, queries: int) -> tuple[int, int]:
    """Steps of a pass of Masked Graph Training over the queries, and the queries of a step."""
    rounds = fold_count(params.mgt.beta)
    batches = max(1, round(queries / rounds / params.mgt.batch_size))
    return rounds * batches, max(1, round(queries / rounds / batches))


# --- the stages -------------------------------------------------------------------------------------------------------


def _prepare(at: Setting, stage: Declared) -> Work:
    rows = at.facts.passages + at.facts.available + at.judged
    return Work(other=RECORD * rows, disk=0.6 * at.facts.passages * at.facts.passage_characters)


def _bm25(at: Setting, stage: Declared) -> Work:
    """Index, candidates of the training queries, runs."""
    asked, passages = at.facts.train + at.judged, at.facts.passages
    words = passages * float(at.facts.passage_tokens.counts.mean())
    found = Work(index=passages, bm25=asked * passages, disk=8 * words, memory=LIGHT + 24 * words)
    return found + _runs(at)


def _runs(at: Setting) -> Work:
    """A system's runs."""
    return Work(other=_rows(at) * ROW, disk=_rows(at) * RUN_BYTES, memory=LIGHT + 80 * _rows(at))


def _rows(at: Setting) -> int:
    """Rows of a system's runs."""
    return at.judged * min(at.params.retrieve.depth, at.facts.passages)


def _train_dual_encoder(at: Setting, stage: Declared) -> Work:
    section = at.params.value(stage.item["section"])
    batches = max(1, round(at.facts.train / section.batch_size))
    return _contrastive(at, section, steps_of(section.epochs, batches), -(-at.facts.train // batches)) + at.dev(
        at.params.dev.evaluations
    )


def _contrastive(at: Setting, section: Any, steps: int, queries: int, around: float = 0.0) -> Work:
    """Steps of contrastive training; GradCache encodes once more where a batch has more texts than a chunk.

    Args:
        queries: of a batch.
        around: queries more that a step encodes, besides those of its batch.
    """
    passages = queries * (1 + section.negatives)
    asked, read = at.queries(queries + around), at.passages(passages)
    again = sum(tokens for texts, tokens in ((queries, asked), (passages, read)) if texts > section.chunk_size)
    layers = at.machine.model.layers - at.params.encoder.frozen_layers
    texts, length = min(passages, section.chunk_size), at.params.encoder.passage_length
    return at.training(texts, length, layers, train=steps * (asked + read), step=steps, read=steps * again)


def _train_no_gnn(at: Setting, stage: Declared) -> Work:
    mgt = at.params.mgt
    batches, size = batches_of(at.params, at.facts.train)
    steps = round((mgt.gnn_epochs + mgt.epochs) * batches)
    return _contrastive(at, mgt, steps, size) + at.dev(steps // mgt.evaluate_every + 2)


def _cache_passages(at: Setting, stage: Declared) -> Work:
    longest = at.machine.model.tokens
    limit = min(at.params.untouched.passage_length or longest, longest) if stage.name == "untouched" else None
    return at.reading(read=at.passages(at.facts.passages, limit), disk=_matrix(at))


def _matrix(at: Setting) -> float:
    """Bytes of the passages' embeddings."""
    return at.vectors(at.facts.passages, 2 if at.params.cache_passages.dtype == "float16" else 4)


def _nearest(at: Setting, queries: int, depth: int) -> Work:
    """The nearest passages of so many queries, and the candidates table."""
    arrays = at.vectors(queries, 4) + 12 * queries * depth
    return at.reading(arrays, read=at.queries(queries), search=queries * at.facts.passages, disk=7 * queries * depth)


def _train_cross_encoder(at: Setting, stage: Declared) -> Work:
    section, queries = at.params.train_cross_encoder, at.facts.train
    batches = max(1, round(queries / section.batch_size))
    texts = -(-queries // batches) * (1 + section.negatives)
    steps, size = steps_of(section.epochs, batches), min(PAIRS_AT_A_TIME, texts)
    work = {"train_pair": steps * at.pairs(texts), "step_pair": steps}
    trained = at.training(size, section.max_length, at.machine.model.layers, **work)
    return trained + Work(read=at.params.dev.evaluations * at.pairs(dev_pairs(at)))


def _denoise(at: Setting, stage: Declared) -> Work:
    pairs = at.facts.train * (at.params.denoise.candidates + at.facts.labels_a_query)
    return at.reading(read=at.pairs(pairs), disk=8 * pairs)


def _embed_edges(at: Setting, stage: Declared) -> Work:
    if at.params.mgt.edge_features != "cross_encoder":
        return Work(other=0.1)
    pairs = at.nodes + at.edges + min(at.facts.passages, at.edges)  # with the self-loops that can matter
    return at.reading(read=at.pairs(pairs), disk=at.vectors(pairs, 2))


def _train_mgt(at: Setting, stage: Declared) -> Work:
    mgt, facts, k = at.params.mgt, at.facts, at.params.build_graph.k
    batches, size = batches_of(at.params, facts.train)
    passages = size * (1 + mgt.negatives)
    share = at.edges / max(1, min(facts.passages, at.edges))  # edges of a passage that has any
    share = min(share, mgt.max_neighbours or share)
    pool = facts.passages if facts.passages <= at.params.dev.cached_passages else min(facts.passages, dev_pairs(at))
    steps, joint = round(mgt.gnn_epochs * batches), round(mgt.epochs * batches)
    scored = (steps + joint) // mgt.evaluate_every + 2

    def edges(count: float) -> float:
        """Those of both layers around so many passages."""
        return count * share + min(count * share, at.nodes) * (k + 1)

    around = min(passages * share, at.nodes)
    dev = Work(gnn=scored * edges(pool) / 3)  # forward alone
    work = at.training(0, 0, 1, gnn=(steps + joint) * edges(passages), read=at.queries(at.nodes + facts.dev)) + dev
    work += Work(memory=work.memory + at.vectors(6 * around * (k + 1), 4))
    return work + _contrastive(at, mgt, joint, size, around) + at.dev(scored) if joint else work


def _encode_corpus(at: Setting, stage: Declared) -> Work:
    again = at.passages(at.facts.passages) if at.params.mgt.epochs else 0.0  # the encoder has changed
    edges = (2 * at.edges + at.nodes + at.facts.passages) / 3  # forward alone
    held = 2 * at.vectors(at.nodes, 4)
    return at.reading(held, read=at.queries(at.nodes) + again, gnn=edges, disk=_matrix(at))


def _build_index(at: Setting, stage: Declared) -> Work:
    """The index, and the runs of the judged queries."""
    size = at.vectors(at.facts.passages, 4)
    built = Work(other=0.2 + size / 2e8, disk=size, memory=LIGHT + size)
    return built + _nearest(at, at.judged, 0) + _runs(at)


def _baselines(at: Setting, stage: Declared) -> Work:
    """Those of the query log and the hybrid look up and write runs, one of them with an index of its own."""
    found = at.reading(read=at.queries(at.facts.train + at.judged), disk=_matrix(at), other=12 * _rows(at) * ROW)
    return found + _build_index(at, stage) + Work(disk=3 * _rows(at) * RUN_BYTES)


def _evaluate(at: Setting, stage: Declared) -> Work:
    return at.reading(read=at.queries(at.facts.train + at.facts.test), other=6.0 + 10 * _rows(at) * ROW)


STAGES: dict[str, Callable[[Setting, Declared], Work]] = {
    "prepare": _prepare,
    "untouched": lambda at, stage: _cache_passages(at, stage) + _build_index(at, stage),
    "bm25": _bm25,
    "train_dual_encoder": _train_dual_encoder,
    "cache_passages": _cache_passages,
    "mine_candidates": lambda at, stage: _nearest(at, at.facts.train, at.params.mine_candidates.depth),
    "train_cross_encoder": _train_cross_encoder,
    "denoise": _denoise,
    "train_no_gnn": _train_no_gnn,
    "build_graph": lambda at, stage: _nearest(at, at.nodes, at.params.build_graph.k),
    "embed_edges": _embed_edges,
    "train_mgt": _train_mgt,
    "encode_corpus": _encode_corpus,
    "build_index": _build_index,
    "baselines": _baselines,
    "evaluate": _evaluate,
}
