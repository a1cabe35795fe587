"""How fast this machine is: some steps of each kind, on the user's own texts, give seconds a step.

On a CPU the processor's time of the calling thread is measured: it takes part in all that several threads compute, and
takes none while it waits for other programs. So a busy machine is measured as if it were quiet.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from gnn_encoder.mgt.phases import new_gnn
from gnn_encoder.pipeline.params import Params
from gnn_encoder.text.batches import Batch
from gnn_encoder.text.device import device, processor
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.text.pretrained import Source, read_stated
from gnn_encoder.training.loop import keep_freed_memory

IMPORTED = time.process_time()  # the processor's seconds of a process that has imported what a stage imports
READ, TRAINED = 64, 16  # most texts of a batch that is encoded, and of one that a model is trained with
GNN_QUERIES, GNN_PASSAGES = 256, 12  # of the timed graph
BUDGET = 0.5  # seconds for one kind, without its first call; the last call may take longer
KINDS = {
    "start": "a process that imports torch and loads a model",
    "read": "a padded token of passages through the model, without gradients",
    "train": "a token forward and backward through a dual-encoder with `encoder.frozen_layers`",
    "train_pair": "a token forward and backward through M_ce, of which nothing is frozen",
    "gnn": "an edge forward and backward through both GAT layers",
    "search": "a query against a passage vector, exactly",
}


@dataclass(frozen=True, kw_only=True)
class Model:
    """A base model: the most tokens that it reads, and its shape."""

    tokens: int
    layers: int
    dimension: int
    weights: int


@dataclass(frozen=True, kw_only=True)
class Machine(Model):
    """A machine, with the base model of an experiment.

    Attributes:
        name: processor or GPU, and threads.
        main_memory: bytes.
        memory: bytes in which models train: of the GPU's, or of main memory.
        heads: of the model.
        speeds: seconds a step of each of `KINDS`.
    """

    name: str
    main_memory: int
    memory: int
    heads: int
    speeds: Mapping[str, float]

    def activations(self, length: int, frozen: int) -> float:
        """Bytes that training keeps of a text until its backward pass.

        A layer keeps about 17 vectors a token and 2.5 attention maps, in float32 (half of what Korthikanti et al. 2022,
        arXiv:2205.05198, count in bytes for 2 bytes a number).
        """
        return 4 * max(1, self.layers - frozen) * length * (17 * self.dimension + 2.5 * self.heads * length)


def measure(
    params: Params,
    tokenizer: PreTrainedTokenizerBase,
    passages: Sequence[str],
    queries: Sequence[str],
    *,
    passage_length: int,
    pair_length: int,
) -> Machine:
    """Run some steps of each kind with the base model of `params`, on texts of the user's.

    Args:
        passage_length, pair_length: the most tokens that will be read of a passage, and of a query with one.
    """
    keep_freed_memory()  # as training does
    began = time.thread_time()
    # The lengths of the parameters may not fit the model; those that are timed are the caller's.
    encoder = DualEncoder.from_pretrained(params.encoder.model_copy(update={"query_length": 4, "passage_length": 4}))
    load, model = time.thread_time() - began, cast(PreTrainedModel, encoder.query)
    config: Any = model.config
    tokens = read_stated(Source.of(params.encoder)).readable(model) or max(passage_length, pair_length)
    size, few = params.encoder.batch_tokens, passages[:TRAINED]
    asked = [queries[i % len(queries)] for i in range(len(few))]
    speeds = {"start": IMPORTED + load, "gnn": _gnn_edge(params, encoder)}
    pairs = _batch(tokenizer, min(pair_length, tokens), size, asked, few)
    speeds["train_pair"] = _backward(encoder.train(), pairs)
    encoder.zero_grad(set_to_none=True)
    encoder.freeze_lower(params.encoder.frozen_layers)
    length = min(passage_length, tokens)
    speeds["train"] = _backward(encoder, _batch(tokenizer, length, size, few))
    speeds["read"] = _forward(encoder.eval(), _batch(tokenizer, length, size, passages[:READ]))
    speeds["search"] = _search(config.hidden_size)
    return Machine(
        name=f"{processor()}, threads: {torch.get_num_threads()}",
        main_memory=_main_memory(),
        memory=_gpu_memory() or _main_memory(),
        tokens=tokens,
        layers=config.num_hidden_layers,
        dimension=config.hidden_size,
        weights=model.num_parameters(),
        heads=config.num_attention_heads,
        speeds=speeds,
    )


# --- timing -----------------------------------------------------------------------------------------------------------


def _timed(work: Callable[[], object]) -> float:
    """Seconds of a call: the least of several, after a first one in which torch prepares what later ones reuse."""
    _seconds(work)
    times: list[float] = []
    while sum(times) < BUDGET and len(times) < 20:
        times.append(_seconds(work))
    return min(times)


def _seconds(work: Callable[[], object]) -> float:
    clock = time.perf_counter if torch.cuda.is_available() else time.thread_time
    began = clock()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return clock() - began


def _batch(tokenizer: PreTrainedTokenizerBase, length: int, tokens: int, *columns: Sequence[str]) -> Batch:
    """The first texts, or pairs of texts, that have about so many padded tokens together."""
    size = max(1, tokens // length)
    return Batch.of(tokenizer, *(column[:size] for column in columns), length=length)


@torch.inference_mode()
def _forward(encoder: DualEncoder, batch: Batch) -> float:
    """Seconds a token."""
    return _timed(lambda: encoder.encode_passages(batch)) / batch.input_ids.numel()


def _backward(encoder: DualEncoder, batch: Batch) -> float:
    """Seconds a token; those of the optimiser are few beside them."""
    return _timed(lambda: encoder.encode_passages(batch).sum().backward()) / batch.input_ids.numel()


def _gnn_edge(params: Params, encoder: DualEncoder) -> float:
    """Seconds an edge of both layers, on a graph of GNN_QUERIES queries with GNN_PASSAGES passages each."""
    mgt = params.mgt.model_copy(update={"layers": 2, "edge_features": "product"})
    dimension, similarity = encoder.dimension, encoder.settings.similarity
    gnn = new_gnn(mgt, dimension, None, similarity, labelled=False, seed=params.seed)
    n, k = GNN_QUERIES, GNN_PASSAGES
    generator = torch.Generator().manual_seed(0)
    shapes = [(n, dimension), (n, k, dimension), (n * k // 4, dimension)]
    h_q, near, h_p = (torch.randn(*shape, generator=generator).to(device()) for shape in shapes)
    edge_query = torch.arange(n).repeat_interleave(k).to(device())
    edge_passage = (torch.arange(n * k) % (n * k // 4)).sort().values.to(device())

    def both() -> None:
        informed = gnn.interactive_queries(h_q, near)
        gnn.interactive_passages(h_p, informed, edge_query, edge_passage, h_q=h_q).sum().backward()

    return _timed(both) / (n * k)


def _search(dimension: int) -> float:
    queries, passages = torch.ones(128, dimension), torch.ones(8192, dimension)
    return _timed(lambda: (queries @ passages.T).topk(100)) / (len(queries) * len(passages))


def _gpu_memory() -> int:
    return int(torch.cuda.get_device_properties(0).total_memory) if torch.cuda.is_available() else 0


def _main_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
