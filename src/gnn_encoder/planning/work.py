"""The cost model: a function for each kind of work, from counts and measured speeds to seconds.

Where a constant stands for a speed, it was measured on two cores and is not measured anew: such work takes seconds.
"""

from dataclasses import dataclass

from gnn_encoder.planning.machine import Machine
from gnn_encoder.planning.tokens import Tokens
from gnn_encoder.training.examples import steps_of
from gnn_encoder.training.params import Contrastive

PREPARE = 5e-5  # seconds for a row that is read, checked and written
TOKENISE = 1e-6  # for a token, once for each table
INDEX_WORD = 1.5e-6  # for a token of BM25's index
SEARCH_WORD = 2.5e-8  # for a passage that BM25 scores for a query
RUN_ROW = 1.2e-6  # for a row of a TREC run: written, or read and judged
GNN_PASSAGE = 3e-5  # for a passage that the GNN informs at inference, besides its edges
EDGE_BYTES = 2  # float16
RUN_BYTES = 12  # a row of a TREC run, compressed
PROCESS = 450 * 2**20  # a process that has loaded torch and transformers
LIGHT_PROCESS = 150 * 2**20
WEIGHT = 4  # bytes, float32


@dataclass(frozen=True, kw_only=True)
class Steps:
    """A training's shape."""

    steps: int
    queries: int  # of a batch
    passages: int  # of a batch


def schedule(queries: int, section: Contrastive) -> Steps:
    """The steps of a contrastive training, as `epoch_batches` cuts them."""
    batches = max(1, round(queries / section.batch_size))
    size = -(-queries // batches)
    return Steps(steps=steps_of(section.epochs, batches), queries=size, passages=size * (1 + section.negatives))


def encoding(texts: int, tokens: Tokens, limit: int, machine: Machine) -> float:
    """Texts through a model at inference, in batches of similar lengths."""
    width = tokens.mean(limit)
    return texts * width * machine.read(width)


def steps(shape: Steps, asked: Tokens, read: Tokens, lengths: tuple[int, int], chunk: int, machine: Machine) -> float:
    """Contrastive training: forward and backward of a batch's texts in parts of similar length, and the optimiser.

    Where a batch has more texts than a chunk, GradCache encodes them once more, without gradients.

    Args:
        lengths: most tokens of a query and of a passage.
        chunk: texts that are encoded at a time.
    """
    one = machine.step
    for texts, tokens, limit in ((shape.queries, asked, lengths[0]), (shape.passages, read, lengths[1])):
        width = tokens.mean(limit)
        one += texts * width * machine.train(width)
        if texts > chunk:
            one += texts * width * machine.read(width)
    return shape.steps * one


def pair_steps(
    queries: int, epochs: float, batch: int, negatives: int, pairs: Tokens, limit: int, of: Machine
) -> float:
    """Training a cross-encoder, nothing of which is frozen."""
    batches = max(1, round(queries / batch))
    each = -(-queries // batches) * (1 + negatives)
    width = pairs.mean(limit)
    return steps_of(epochs, batches) * (each * width * of.train_all(width) + of.step_all)


def searching(queries: int, vectors: int, machine: Machine) -> float:
    """Exact search of all vectors, block by block."""
    return queries * vectors * machine.model.dimension * machine.multiply


def gnn_steps(rounds: int, passages: int, edges_a_passage: float, k: int, queries: int, machine: Machine) -> float:
    """Steps of the GNN on cached embeddings.

    Args:
        rounds: optimiser steps.
        passages: of a batch.
        edges_a_passage: edges of a passage in the graph.
        k: passages of a query, which layer one reads for each query that informs a passage of the batch.
        queries: of the graph: no more than these inform a batch.
    """
    edges = passages * edges_a_passage
    return rounds * (edges + min(edges, queries) * (k + 1)) * machine.gnn_edge


def bm25(queries: int, passages: int, tokens: Tokens, depth_rows: int) -> float:
    """Indexing the passages, searching them, writing the runs."""
    words = passages * tokens.mean(int(tokens.counts[-1]))
    return words * INDEX_WORD + queries * passages * SEARCH_WORD + depth_rows * RUN_ROW


def training_memory(texts: int, width: int, machine: Machine, trained: int) -> int:
    """Bytes of weights, gradients, AdamW's moments, and the activations of a chunk that its backward pass needs.

    An activation layer keeps about 34 vectors a token and 2.5 attention maps, in float32 (Korthikanti et al. 2022,
    arXiv:2205.05198, whose counts are for 2 bytes a number and a dropout mask; here without).

    Args:
        texts: encoded at a time.
        width: padded tokens of each.
        trained: layers that are not frozen.
    """
    model = machine.model
    vectors = 17 * model.dimension * WEIGHT
    maps = 2.5 * model.heads * width * WEIGHT
    activations = texts * width * (vectors + maps) * max(1, trained)
    return int(PROCESS + 4 * WEIGHT * model.parameters + activations)


def reading_memory(batch_tokens: int, machine: Machine, *, arrays: float = 0.0) -> int:
    """Bytes of the weights, the activations of one inference batch, and of arrays that are held meanwhile."""
    model = machine.model
    return int(PROCESS + WEIGHT * model.parameters + 20 * batch_tokens * model.dimension * WEIGHT + arrays)
