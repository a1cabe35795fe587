"""How fast this machine is at what a run consists of, measured in some seconds with the real base model."""

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn
from transformers import PreTrainedModel

from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.core.storage.scratch import SCRATCH
from gnn_encoder.mgt.phases import new_gnn
from gnn_encoder.models.batch import Batch
from gnn_encoder.models.device import device, working_dtype
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.models.pretrained import Source
from gnn_encoder.models.untouched import own_settings, readable
from gnn_encoder.pipeline.params import Params
from gnn_encoder.training.allocator import keep_freed_memory
from gnn_encoder.training.loop import CLIP

MEASURED = SCRATCH / "machine.json"  # what was measured last, for plans that cannot wait
SHORT, LONG = 32, 256  # tokens of the texts that are timed; costs of other lengths lie on the line through both
TRAINED_TOKENS = 2048  # tokens of a timed training step
GNN_QUERIES, GNN_PASSAGES = 256, 12  # of the timed graph
BUDGET = 0.5  # seconds for one of the measurements, without its first call; the last call may take longer


@dataclass(frozen=True, kw_only=True)
class Rate:
    """Seconds for a padded token, at two lengths of a text: attention makes long texts dearer for each token."""

    short: float  # at SHORT tokens
    long: float  # at LONG tokens

    def __call__(self, length: float) -> float:
        """Seconds for a token of texts of some length, on the line through both."""
        slope = max(0.0, self.long - self.short) / (LONG - SHORT)
        return max(self.short + slope * (length - SHORT), min(self.short, self.long) / 2)


@dataclass(frozen=True, kw_only=True)
class Model:
    """What the memory of a model depends on."""

    parameters: int
    layers: int
    dimension: int
    heads: int
    tokens: int  # most tokens that it reads


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Times in seconds, measured on one machine."""

    name: str  # processor or GPU, and threads
    model: Model
    read: Rate  # forward, in inference
    train: Rate  # forward and backward, with `encoder.frozen_layers`
    train_all: Rate  # the same with nothing frozen, as M_ce trains
    step: float  # of the optimiser, with frozen layers
    step_all: float
    gnn_edge: float  # forward and backward of both GAT layers for an edge
    multiply: float  # of a multiplication and an addition in exact search
    start: float  # from the start of a stage to its work, without a model
    start_model: float  # the same with torch and transformers
    load: float  # loading a model
    memory: int  # bytes of main memory, or of the GPU's
    measured: float = 0.0  # how long measuring took


def measure(params: Params) -> Machine:
    """Measure with the base model of `params`, and keep the result for `recall`.

    Raises:
        UserError: the model cannot be loaded.
    """
    began = time.perf_counter()
    keep_freed_memory()  # as training does
    encoder, load = _loaded(params)
    model = _describe(cast(PreTrainedModel, encoder.query), params)
    read = _rate(lambda batch: _forward(encoder.eval(), batch), params.encoder.batch_tokens, model)
    encoder.train()
    train_all = _rate(lambda batch: _backward(encoder, batch), TRAINED_TOKENS, model)
    step_all = _optimise(encoder)
    encoder.zero_grad(set_to_none=True)
    encoder.freeze_lower(params.encoder.frozen_layers)
    train = _rate(lambda batch: _backward(encoder, batch), TRAINED_TOKENS, model)
    found = Machine(
        name=_name(),
        model=model,
        read=read,
        train=train,
        train_all=train_all,
        step=_optimise(encoder),
        step_all=step_all,
        gnn_edge=_gnn_edge(params, model.dimension),
        multiply=_multiply(model.dimension),
        start=_start("gnn_encoder.pipeline.stage", "polars"),
        start_model=_start("gnn_encoder.mgt.phases"),
        load=load,
        memory=_memory(),
        measured=time.perf_counter() - began,
    )
    write_json(MEASURED, {"of": _key(params), "machine": asdict(found)})
    return found


def recall(params: Params) -> Machine | None:
    """What `measure` found last, if it was with this model, trained likewise, and these threads; else None."""
    if not MEASURED.is_file():
        return None
    kept = json.loads(MEASURED.read_text(encoding="utf-8"))
    return from_json(kept["machine"]) if kept["of"] == _key(params) else None


def from_json(values: dict[str, Any]) -> Machine:
    """A machine from what `asdict` makes of it."""
    rates = {name: Rate(**values[name]) for name in ("read", "train", "train_all")}
    return Machine(**values | rates | {"model": Model(**values["model"])})


# --- timing -----------------------------------------------------------------------------------------------------------


def _timed(work: Callable[[], object]) -> float:
    """Seconds of a call: the least of several, after a first one in which torch prepares what later ones reuse.

    What other programs do meanwhile only adds, so that the least is nearest to a quiet machine.
    """
    _seconds(work)
    times: list[float] = []
    while sum(times) < BUDGET and len(times) < 20:
        times.append(_seconds(work))
    return min(times)


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - began


def _rate(work: Callable[[Batch], object], tokens: int, model: Model) -> Rate:
    """Seconds for a token of batches that have about so many tokens."""

    def at(length: int) -> float:
        batch = _random(max(1, tokens // length), length)
        return _timed(lambda: work(batch)) / batch.input_ids.numel()

    short, long = min(SHORT, model.tokens), min(LONG, model.tokens)
    return Rate(short=at(short), long=at(long))


def _random(texts: int, length: int) -> Batch:
    ids = torch.randint(5, 30, (texts, length), generator=torch.Generator().manual_seed(0))
    return Batch(ids, torch.ones_like(ids), torch.zeros_like(ids))


@torch.inference_mode()
def _forward(encoder: DualEncoder, batch: Batch) -> None:
    encoder.encode_passages(batch)


def _backward(encoder: DualEncoder, batch: Batch) -> None:
    encoder.encode_passages(batch).sum().backward()


def _optimise(encoder: DualEncoder) -> float:
    """Clipping and a step of AdamW on what has a gradient."""
    parameters = [parameter for parameter in encoder.parameters() if parameter.grad is not None]
    optimizer = torch.optim.AdamW(parameters, lr=0.0, weight_decay=0.0)

    def step() -> None:
        nn.utils.clip_grad_norm_(parameters, CLIP)
        optimizer.step()

    return _timed(step) if parameters else 0.0


def _gnn_edge(params: Params, dimension: int) -> float:
    """Both layers on a graph of GNN_QUERIES queries, each with GNN_PASSAGES passages of its own and of others.

    They are those of the experiment, but whole and with features that need no cross-encoder.
    """
    mgt = params.mgt.model_copy(update={"layers": 2, "edge_features": "product", "graph": "full"})
    gnn = new_gnn(mgt, dimension, None, params.encoder.similarity, labelled=False, seed=params.seed)
    n, k = GNN_QUERIES, GNN_PASSAGES
    generator = torch.Generator().manual_seed(0)
    h_q, near, h_p = (torch.randn(*shape, generator=generator).to(device()) for shape in _shapes(dimension))
    edge_query = torch.arange(n).repeat_interleave(k).to(device())
    edge_passage = (torch.arange(n * k) % (n * k // 4)).sort().values.to(device())

    def both() -> None:
        informed = gnn.interactive_queries(h_q, near)
        gnn.interactive_passages(h_p, informed, edge_query, edge_passage, h_q=h_q).sum().backward()

    return _timed(both) / (n * k)


def _shapes(dimension: int) -> list[tuple[int, ...]]:
    n, k = GNN_QUERIES, GNN_PASSAGES
    return [(n, dimension), (n, k, dimension), (n * k // 4, dimension)]


def _multiply(dimension: int) -> float:
    queries, passages = torch.ones(128, dimension), torch.ones(8192, dimension)
    return _timed(lambda: (queries @ passages.T).topk(100)) / (128 * 8192 * dimension)


def _start(*modules: str) -> float:
    """Seconds that a process takes to start and to import some modules."""
    code = "; ".join(f"import {module}" for module in modules)
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    return time.perf_counter() - began


# --- what there is ----------------------------------------------------------------------------------------------------


def _loaded(params: Params) -> tuple[DualEncoder, float]:
    began = time.perf_counter()
    # Other lengths than the model's own are the choice of who asks: those of the parameters may not even fit it.
    lengths = {"query_length": 4, "passage_length": 4}
    encoder = DualEncoder.from_pretrained(params.encoder.model_copy(update=lengths))
    return encoder, time.perf_counter() - began


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


def _key(params: Params) -> dict[str, Any]:
    encoder = params.encoder
    return {
        "model": encoder.model,
        "revision": encoder.revision,
        "frozen_layers": encoder.frozen_layers,
        "dropout": encoder.dropout,
        "dtype": str(working_dtype(encoder.precision)),
        "name": _name(),
    }


def _name() -> str:
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    cores = torch.get_num_threads()
    return f"{_processor()}, {cores} thread{'s' if cores > 1 else ''}"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def _memory() -> int:
    if torch.cuda.is_available():
        return int(torch.cuda.get_device_properties(0).total_memory)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
