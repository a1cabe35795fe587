"""What informing passages by queries costs: ms to encode a passage (Table 4)."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gnn_encoder.core.distributed import cores
from gnn_encoder.core.storage.tables import count_rows
from gnn_encoder.encoding.corpus import embed_passages, origin_of, transform_corpus
from gnn_encoder.models.device import processor, working_dtype
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.costs import costs_of
from gnn_encoder.pipeline.graphs import GraphArtifacts, graph_encoder, open_informer
from gnn_encoder.pipeline.opening import open_passages
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.systems import MAIN, REFERENCE

GRAPH = GraphArtifacts(name=MAIN)
ENCODED = 4_096  # passages of a timed encoding, spread evenly over the corpus
REPEATS = 3


def timed(params: Params, scratch: Path) -> dict[str, Any]:
    """Table 4: ms per passage and ms per query, of M_de and of GNN-encoder, and what the times depend on."""
    systems = {
        system: {"ms_a_passage": passage, "ms_a_question": costs_of(system, params).latency_ms}
        for system, passage in encoding_milliseconds(params, scratch).items()
    }
    machine = {
        "processor": processor(),
        "cores": cores(),
        "threads": torch.get_num_threads(),
        "precision": "bf16" if working_dtype(params.encoder.precision) is torch.bfloat16 else "fp32",
        "passage_batch_tokens": params.encoder.batch_tokens,
        "passage_length": params.encoder.passage_length,
        "passages": count_rows(project.PASSAGES),
        "queries_in_graph": count_rows(GRAPH.queries),
    }
    return {"systems": systems, "machine": machine}


def encoding_milliseconds(params: Params, scratch: Path) -> dict[str, float]:
    """Milliseconds a passage from tokens to the embedding that is indexed; the median of `REPEATS` rounds.

    For M_de, this is the forward pass. GNN-encoder adds the time of the GNN, divided by the passages of the corpus: it
    opens the graph, encodes the training queries, computes h'_q once (Eq. 6, 7) and h'_p of every passage (Eq. 8-10),
    and writes the matrix. It starts from cached embeddings and edge features. The time that M_ce takes for the edge
    features is not counted; the paper does not count it either.
    """
    model = project.gnn(MAIN)
    encoder, _ = graph_encoder(GRAPH, model, params)
    tokens, n_passages = open_passages(encoder), count_rows(project.PASSAGES)
    chosen = np.unique(np.linspace(0, n_passages - 1, ENCODED).astype(np.int64))
    matrix, origin = scratch / "informed", origin_of(model / "encoder", project.PASSAGES)
    dtype = params.cache_passages.dtype

    def encode() -> None:
        embed_passages(encoder, tokens, params.encoder.batch_tokens, chosen)

    def inform() -> None:
        informer = open_informer(GRAPH, model, encoder, params)
        transform_corpus(project.embeddings(GRAPH.base), matrix, dtype=dtype, origin=origin, transform=informer)
        shutil.rmtree(matrix)

    seconds = [(_seconds(encode), _seconds(inform)) for _ in range(1 + REPEATS)]  # in turns: a busy machine slows both
    encoded, informed = np.median(seconds[1:], axis=0)  # the first calls read files and fill caches
    plain = 1000 * float(encoded) / len(chosen)
    return {REFERENCE: plain, MAIN: plain + 1000 * float(informed) / n_passages}


def _seconds(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()  # it ends in the memory or on the disk of the host: no device is still at work
    return time.perf_counter() - start
