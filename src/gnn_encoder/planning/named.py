"""What an experiment takes on a machine that is named, from sizes and shapes: nothing is measured and no data are read.

A transformer's forward pass is 2 FLOPs a weight and token (embeddings left out), a training step three times that.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gnn_encoder.base.errors import UserError
from gnn_encoder.inspection.lengths import Lengths
from gnn_encoder.pipeline.params import Data, Params
from gnn_encoder.pipeline.stage import Declared
from gnn_encoder.planning.facts import Facts
from gnn_encoder.planning.machine import Model
from gnn_encoder.planning.plan import SCORED, count
from gnn_encoder.planning.setting import Setting
from gnn_encoder.planning.space import disk, memory

GIB = 2**30
BERT = Model(tokens=512, layers=12, dimension=768, weights=110_000_000)  # BERT-base, as all papers'
REACHED = 0.4  # of a peak: a common share for BERT-base at these lengths
SELECTED = 150  # bytes that selecting the best passages moves for each score: `index/exact.py` makes keys of them
CORES, PRODUCTS = 12, 2e10  # processor cores beside each GPU, as in AWS's p4d.24xlarge, and FLOP/s of one in float32
WRITTEN = 1e9  # bytes a second that a disk takes
START = 30.0  # seconds until a process has its model
PROCESS = 4 * GIB  # main memory of a process with its model
SHARED = {"read", "train", "train_pair", "gnn", "search"}  # kinds of work that a GPU does
ALONE = {"prepare", "bm25", "build_index", "baselines", "evaluate"}  # stages that one process runs
INDEXED = {"untouched", "build_index", "baselines"}  # they search FAISS's index, on the processor


@dataclass(frozen=True)
class Gpu:
    """Dense peaks of a GPU: FLOP/s in bfloat16 and float32, and bytes a second."""

    bf16: float
    fp32: float
    bandwidth: float


GPUS = {  # NVIDIA's data sheets: A100 80GB SXM, H100 SXM, H200 SXM, L4
    "a100": Gpu(312e12, 19.5e12, 2.0e12),
    "h100": Gpu(989e12, 67e12, 3.35e12),
    "h200": Gpu(989e12, 67e12, 4.8e12),
    "l4": Gpu(121e12, 30.3e12, 0.3e12),
}


@dataclass(frozen=True)
class Sizes:
    """A data set's numbers. A dev split of 0 queries is taken from those that train."""

    passages: int
    train: int
    dev: int = 0
    test: int = 0
    labels: float = 1.0  # of a training query


SIZES = {  # GNN-encoder, Table 6, and DPR (Karpukhin et al. 2020), Table 1
    "msmarco": Sizes(8_841_823, 502_939, 0, 6_980),
    "nq": Sizes(21_015_324, 79_168, 8_757, 3_610),
    "trivia": Sizes(21_015_324, 78_785, 8_837, 11_313),
}


@dataclass(frozen=True, kw_only=True)
class Need:
    """What a stage takes: hours, processes with a GPU each, bytes that it leaves on disk, bytes of main memory."""

    stage: str
    hours: float
    processes: int
    disk: float
    memory: float


def needs(params: Params, sizes: Sizes, gpu: str, gpus: int, stages: Iterable[Declared]) -> list[Need]:
    """What these stages take."""
    if gpu not in GPUS:
        raise UserError(f"--gpu is {gpu!r}: must be one of {', '.join(GPUS)}")
    at = Setting(params, _facts(params, sizes), BERT, around=params.build_graph.k)
    return [_need(stage, at, GPUS[gpu], gpus) for stage in stages]


def sizes_of(data: Data, passages: int | None, queries: int | None) -> Sizes:
    """The numbers that are given, or those of a data set whose numbers are known."""
    known = SIZES.get(data.name or data.source)
    if known is None and not (passages and queries):
        rule = f"the sizes of data.source {data.source!r} are not known here"
        raise UserError(f"{rule}; give --passages and --queries, or leave --gpu out to have them counted")
    known = known or Sizes(0, 0)
    return Sizes(passages or known.passages, queries or known.train, known.dev, known.test, known.labels)


def table(found: list[Need]) -> Iterator[str]:
    """A line a stage, one of all, and one about the stage that leaves GPUs idle for longest."""
    width = max(len(one.stage) for one in found)
    yield f"{'stage':{width}}  {'hours':>6}  {'GPUs':>4}  {'disk GiB':>8}  {'memory GiB':>10}"
    for one in found:
        sizes = f"{one.disk / GIB:8.1f}  {one.memory / GIB:10.0f}"
        yield f"{one.stage:{width}}  {one.hours:6.2f}  {one.processes:4}  {sizes}"
    disk, memory = sum(one.disk for one in found) / GIB, max(one.memory for one in found) / GIB
    yield f"{'all':{width}}  {sum(one.hours for one in found):6.2f}  {'':4}  {disk:8.1f}  {memory:10.0f}"
    if alone := [one for one in found if one.processes == 1]:
        longest = max(alone, key=lambda one: one.hours)
        yield f"of the stages of one process {longest.stage} takes longest: {longest.hours:.1f} hours"


def _facts(params: Params, sizes: Sizes) -> Facts:
    """As many texts, each as long as it is read."""
    data, encoder = params.data, params.encoder
    dev = sizes.dev or max(1, round(data.dev_fraction * sizes.train))
    available = sizes.train - (0 if sizes.dev else dev)
    return Facts(
        passages=sizes.passages,
        train=min(available, data.train_queries or available),
        available=available,
        dev=dev,
        test=sizes.test,
        labels_a_query=sizes.labels,
        passage_tokens=Lengths.of([encoder.passage_length]),
        query_tokens=Lengths.of([encoder.query_length]),
    )


def _need(stage: Declared, at: Setting, gpu: Gpu, gpus: int) -> Need:
    processes = 1 if stage.name in ALONE else gpus
    speeds, written = _speeds(gpu, gpus), disk(stage, at)
    if stage.name in INDEXED:
        speeds["search"] = processes * 2 * BERT.dimension / (CORES * gpus * PRODUCTS)  # it is not divided by processes
    steps = [(kind, number * speeds[kind] / (processes if kind in SHARED else 1)) for kind, number in count(stage, at)]
    seconds = START + sum(taken for _, taken in steps) + written / WRITTEN
    needed = processes * PROCESS + memory(stage, at, processes).bytes
    return Need(stage=stage.address, hours=seconds / 3600, processes=processes, disk=written, memory=needed)


def _speeds(gpu: Gpu, gpus: int) -> dict[str, float]:
    """Seconds a step of each kind, by one GPU or by all cores."""
    token = 2 * 12 * BERT.layers * BERT.dimension**2 / (REACHED * gpu.bf16)
    moved = REACHED * gpu.bandwidth
    return {
        "read": token,
        "train": 3 * token,
        "train_pair": 3 * token,
        # Both layers read a vector and an edge's feature, in float32, forward and twice backward.
        "gnn": 3 * 2 * 2 * 4 * BERT.dimension / moved,
        "search": 2 * BERT.dimension / (REACHED * gpu.fp32) + SELECTED / moved,
        "lexical": SCORED / (CORES * gpus),
        "other": 1.0,
    }
