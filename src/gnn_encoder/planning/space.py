"""Bytes that a stage takes, on disk and in main memory."""

from contextlib import suppress
from typing import NamedTuple

import faiss

from gnn_encoder.pipeline.candidates import WINDOW
from gnn_encoder.pipeline.stage import Declared
from gnn_encoder.planning.setting import Setting

TEXT, WORDS = 4, 0.6  # bytes and different words of a token
NUMBER = 8  # bytes of a vector's number in an index


class Memory(NamedTuple):
    """Bytes of main memory, and what takes less."""

    bytes: float
    cure: str


def disk(stage: Declared, at: Setting) -> float:
    """Bytes of a stage's artifacts; of tables before they are compressed."""
    facts, params, dimension = at.facts, at.params, at.model.dimension
    matrix = (2 if params.cache_passages.dtype == "float16" else 4) * dimension * facts.passages
    match stage.name:
        case "prepare":
            return TEXT * at.passages(facts.passages)
        case "untouched" | "baselines":
            return matrix + _index(stage, at)
        case "bm25":
            return 8 * WORDS * at.passages(facts.passages) + 4 * params.bm25.depth * facts.train
        case "cache_passages" | "encode_corpus":
            return matrix
        case "encode_views":
            return params.dual_cross.vectors * matrix
        case "build_index":
            return _index(stage, at)
        case "mine_candidates":
            return 14 * params.mine_candidates.depth * facts.train
        case "build_graph":
            return 14 * at.edges
        case "embed_edges" if params.mgt.edge_features == "cross_encoder":
            return 2 * dimension * (at.nodes + at.edges + min(facts.passages, at.edges))
        case "generate_queries":
            return TEXT * facts.passages * params.dual_cross.generated * params.encoder.query_length
        case name if name.startswith("train"):
            return 4 * at.model.weights
        case _:
            return 0.0


def memory(stage: Declared, at: Setting, processes: int) -> Memory:
    """Main memory beside the processes' models; of a mapped index the bytes that must stay for a fast search."""
    facts, params, dimension = at.facts, at.params, at.model.dimension
    words, asked = WORDS * at.passages(facts.passages), 4 * dimension * facts.train
    match stage.name:
        case "bm25":
            return Memory(90 * facts.passages + 16 * words, "bring fewer passages")
        case "untouched" | "baselines" | "build_index":
            return Memory(_index(stage, at), "take a smaller index.factory, such as IVF65536,PQ64")
        case "mine_candidates":
            needed = asked + 32 * WINDOW * params.mine_candidates.depth
            return Memory(processes * needed, "lower mine_candidates.depth")
        case "train_cross_encoder":
            needed = 4 * params.mine_candidates.depth * facts.train
            return Memory(processes * needed, "lower mine_candidates.depth")
        case "denoise":
            return Memory(processes * 32 * params.denoise.candidates * at.scored, "lower denoise.candidates")
        case "build_graph":
            return Memory(processes * (asked + 14 * at.edges) + 32 * at.edges, "lower build_graph.k")
        case "train_mgt" | "encode_corpus":
            return Memory(processes * (2 * dimension * at.nodes + 16 * at.edges), "lower build_graph.k")
        case _:
            return Memory(0.0, "")


def _index(stage: Declared, at: Setting) -> float:
    """Bytes of a system's index."""
    vectors = at.facts.passages * (at.params.dual_cross.vectors if stage.key == "dual_cross" else 1)
    return vectors * _vector(at.params.index.factory, at.model.dimension)


def _vector(factory: str, dimension: int) -> int:
    """Bytes of a vector in an index. FAISS does not say those of a graph, which holds whole vectors."""
    if factory != "Flat":
        with suppress(RuntimeError):
            return NUMBER + int(faiss.index_factory(dimension, factory).sa_code_size())
    return 4 * dimension
