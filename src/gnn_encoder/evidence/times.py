"""What informing passages by queries costs: ms to encode a passage, and ms to encode and search a query (Table 4)."""

import os
import platform
import re
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from gnn_encoder.core.storage.tables import count_rows
from gnn_encoder.encoding.corpus import embed_passages, transform_corpus
from gnn_encoder.encoding.matrix import origin_of
from gnn_encoder.encoding.texts import open_passages
from gnn_encoder.evaluation.costs import QUERIES, measure_costs
from gnn_encoder.models.device import supports_bf16
from gnn_encoder.pipeline import project
from gnn_encoder.pipeline.graphs import GraphArtifacts, load_encoder, open_informer
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.systems import MAIN, REFERENCE

SYSTEMS = (REFERENCE, MAIN)
GRAPH = GraphArtifacts(name=MAIN)
ENCODED = 4_096  # passages of a timed encoding, spread evenly over the corpus
REPEATS = 3


def encoding_milliseconds(params: Params, scratch: Path) -> dict[str, float]:
    """Milliseconds a passage from tokens to the embedding that is indexed; the median of `REPEATS` rounds.

    For M_de, this is the forward pass. GNN-encoder adds the time of the GNN, divided by the passages of the corpus: it
    opens the graph, encodes the training queries, computes h'_q once (Eq. 6, 7) and h'_p of every passage (Eq. 8-10),
    and writes the matrix. It starts from cached embeddings and edge features. The time that M_ce takes for the edge
    features is not counted; the paper does not count it either.
    """
    model = project.gnn(MAIN)
    encoder = load_encoder(model, params)
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

    for work in (encode, inform):  # the first call reads files and fills caches
        work()
    encoded, informed = [], []
    for _ in range(REPEATS):  # taking turns, so that a busy machine slows both
        encoded.append(1000 * _seconds(encode) / len(chosen))
        informed.append(1000 * _seconds(inform) / n_passages)
    plain = statistics.median(encoded)
    return {"dual_encoder": plain, "gnn_encoder": plain + statistics.median(informed)}


def retrieval_milliseconds(params: Params) -> dict[str, float]:
    """Milliseconds to encode and search a query, one at a time: medians over `QUERIES` dev queries."""
    return {system: measure_costs(system, params).latency_ms for system in SYSTEMS}


def machine(params: Params) -> dict[str, object]:
    """The hardware, and the settings and table sizes that the times depend on."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    bf16 = params.encoder.precision != "fp32" and (supports_bf16() or params.encoder.precision == "bf16")
    return {
        "processor": gpu or _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "threads": torch.get_num_threads(),
        "precision": "bf16" if bf16 else "fp32",
        "passage_batch_tokens": params.encoder.batch_tokens,
        "passage_length": params.encoder.passage_length,
        "query_batch": 1,
        "passages": count_rows(project.PASSAGES),
        "queries_in_graph": count_rows(GRAPH.queries),
        "queries_timed": QUERIES,
    }


def _seconds(work: Callable[[], None]) -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def _cpu() -> str:
    names = re.findall(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    return names[0] if names else platform.processor()
