"""How fast this machine is: some steps of each kind of work, on the user's own texts, give seconds a unit.

On a CPU what counts is the processor's time of the thread that calls: it takes part in all that several threads
compute, and while it waits, for them or for other programs, it takes none. So a busy machine is measured as it would be
if it were quiet.
"""

import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import bm25s
import torch
from bm25s.tokenization import Tokenizer
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from gnn_encoder.encoding.tokens import padded
from gnn_encoder.mgt.phases import new_gnn
from gnn_encoder.models.batch import Batch
from gnn_encoder.models.device import device
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.models.pretrained import Source
from gnn_encoder.models.untouched import own_settings, readable
from gnn_encoder.pipeline.params import Params
from gnn_encoder.training.loop import CLIP, keep_freed_memory

READ, TRAINED, INDEXED = 64, 16, 2000  # texts that are encoded, that a model is trained with, that BM25 indexes
GNN_QUERIES, GNN_PASSAGES = 256, 12  # of the timed graph
BUDGET = 0.5  # seconds for one of the measurements, without its first call; the last call may take longer


@dataclass(frozen=True, kw_only=True)
class Model:
    """What lengths and memory depend on."""

    parameters: int
    layers: int
    dimension: int
    heads: int
    tokens: int  # most tokens that it reads


@dataclass(frozen=True, kw_only=True)
class Speeds:
    """Seconds a unit of each kind of work. Tokens are padded ones, in batches of texts of similar lengths."""

    read: float  # a token of passages, without gradients
    train: float  # a token forward and backward through a dual-encoder with `encoder.frozen_layers`
    step: float  # the optimiser's part of a step of a dual-encoder, however many its tokens
    train_pair: float  # a token forward and backward through M_ce, nothing of which is frozen
    step_pair: float  # the optimiser's part of a step of M_ce
    gnn: float  # an edge, forward and backward through both GAT layers
    search: float  # a query against a passage vector, exactly
    index: float  # a passage that BM25 indexes
    bm25: float  # a query against a passage, by BM25
    start: float  # a process that imports torch and transformers
    load: float  # a model from disk


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A machine as the experiment's base model finds it."""

    name: str  # processor or GPU, and threads
    memory: int  # bytes of main memory, or of the GPU's
    model: Model
    speeds: Speeds


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

    Raises:
        UserError: the model cannot be loaded.
    """
    keep_freed_memory()  # as training does
    began = time.thread_time()
    # Other lengths than the model's own are the choice of who asks: those of the parameters may not even fit it.
    encoder = DualEncoder.from_pretrained(params.encoder.model_copy(update={"query_length": 4, "passage_length": 4}))
    load, model = time.thread_time() - began, _describe(cast(PreTrainedModel, encoder.query), params)
    length, size, few = min(passage_length, model.tokens), params.encoder.batch_tokens, passages[:TRAINED]
    asked = [queries[i % len(queries)] for i in range(len(few))]
    pairs = _batches(tokenizer, list(zip(asked, few, strict=True)), min(pair_length, model.tokens), size)
    read, trained = (_batches(tokenizer, [(one,) for one in some], length, size) for some in (passages[:READ], few))
    train_pair, step_pair = _a_token(partial(_backward, encoder.train()), pairs), _timed(_optimiser(encoder))
    encoder.zero_grad(set_to_none=True)
    encoder.freeze_lower(params.encoder.frozen_layers)
    index, bm25 = _bm25(passages[:INDEXED], queries[:READ])
    speeds = Speeds(
        train=_a_token(partial(_backward, encoder), trained),
        step=_timed(_optimiser(encoder)),
        train_pair=train_pair,
        step_pair=step_pair,
        read=_a_token(partial(_forward, encoder.eval()), read),
        gnn=_gnn_edge(params, model.dimension),
        search=_search(model.dimension),
        index=index,
        bm25=bm25,
        start=_start(),
        load=load,
    )
    return Machine(name=_name(), memory=_memory(), model=model, speeds=speeds)


# --- timing -----------------------------------------------------------------------------------------------------------


def _timed(work: Callable[[], object]) -> float:
    """Seconds of a call: the least of several, after a first one in which torch prepares what later ones reuse."""
    _seconds(work)
    times: list[float] = []
    while sum(times) < BUDGET and len(times) < 20:
        times.append(_seconds(work))
    return min(times)


def _seconds(work: Callable[[], object]) -> float:
    if not torch.cuda.is_available():
        began = time.thread_time()
        work()
        return time.thread_time() - began
    began = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - began


def _a_token(work: Callable[[Batch], object], batches: list[Batch]) -> float:
    """Seconds for a padded token of some batches."""
    return _timed(lambda: [work(batch) for batch in batches]) / sum(batch.input_ids.numel() for batch in batches)


def _batches(tokenizer: PreTrainedTokenizerBase, rows: list[tuple[str, ...]], length: int, tokens: int) -> list[Batch]:
    """Texts, or pairs of texts, in batches of similar lengths that have about so many padded tokens."""
    rows.sort(key=lambda row: sum(map(len, row)))
    size = max(1, tokens // padded(length))
    made = []
    for start in range(0, len(rows), size):
        columns = [list(column) for column in zip(*rows[start : start + size], strict=True)]
        found = tokenizer(*columns, truncation=True, max_length=length, padding=True, return_tensors="pt")
        ids = found["input_ids"]
        made.append(Batch(ids, found["attention_mask"], found.get("token_type_ids", torch.zeros_like(ids))))
    return made


@torch.inference_mode()
def _forward(encoder: DualEncoder, batch: Batch) -> None:
    encoder.encode_passages(batch)


def _backward(encoder: DualEncoder, batch: Batch) -> None:
    encoder.encode_passages(batch).sum().backward()


def _optimiser(encoder: DualEncoder) -> Callable[[], None]:
    """Clipping and a step of AdamW that moves nothing, on what is trained."""
    parameters = [parameter for parameter in encoder.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=0.0, weight_decay=0.0)

    def step() -> None:
        nn.utils.clip_grad_norm_(parameters, CLIP)
        optimizer.step()

    return step


def _gnn_edge(params: Params, dimension: int) -> float:
    """Both layers on a graph of GNN_QUERIES queries, each with GNN_PASSAGES passages of its own and of others.

    They are those of the experiment, but whole and with features that need no cross-encoder.
    """
    mgt = params.mgt.model_copy(update={"layers": 2, "edge_features": "product", "graph": "full"})
    gnn = new_gnn(mgt, dimension, None, params.encoder.similarity, labelled=False, seed=params.seed)
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


def _bm25(passages: Sequence[str], queries: Sequence[str]) -> tuple[float, float]:
    """Seconds to index a passage, and to score one for a query."""
    tokenizer, index = Tokenizer(stopwords="en"), bm25s.BM25(method="lucene", csc_backend="scipy")

    def build() -> None:
        words = list(tokenizer.streaming_tokenize(passages, update_vocab=True, allow_empty=False))
        index.index((words, tokenizer.word_to_id), create_empty_token=False, show_progress=False)

    def find() -> None:
        for words in tokenizer.streaming_tokenize(queries, update_vocab=False, allow_empty=False):
            index.get_scores_from_ids(words).argsort()

    return _seconds(build) / len(passages), _seconds(find) / len(queries) / len(passages)


def _start() -> float:
    """The processor's seconds of a process that imports what a stage imports."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", "import gnn_encoder.mgt.phases"], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


# --- what there is ----------------------------------------------------------------------------------------------------


def _describe(model: PreTrainedModel, params: Params) -> Model:
    config: Any = model.config
    source = Source(params.encoder.model, params.encoder.revision, params.encoder.trust_remote_code)
    return Model(
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        layers=config.num_hidden_layers,
        dimension=config.hidden_size,
        heads=config.num_attention_heads,
        tokens=readable(model, own_settings(source)) or config.max_position_embeddings,
    )


def _name() -> str:
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    cores = torch.get_num_threads()
    return f"{named[0] if named else platform.machine()}, {cores} thread{'s' if cores > 1 else ''}"


def _memory() -> int:
    if torch.cuda.is_available():
        return int(torch.cuda.get_device_properties(0).total_memory)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
