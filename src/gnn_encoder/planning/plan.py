"""What a run of the main branch will cost, stage by stage, and what of it will hurt."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gnn_encoder.pipeline.declared import Declared
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.stage import TIMES, artifact_name
from gnn_encoder.planning.facts import Facts
from gnn_encoder.planning.machine import Machine
from gnn_encoder.planning.stages import Cost, Setting, cost_of, gnn_batches, start
from gnn_encoder.presenting.formats import size

LONG_TEXTS = 0.03  # share of texts longer than the model reads from which cutting them is suggested
CUT = 0.05  # share of a kind of token that may go unread before a plan warns
FEW_QUERIES = 300  # training queries
FEW_DEV = 50  # dev queries
FEW_STEPS = 40  # steps of the GNN


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A stage of the main branch."""

    address: str  # DVC's name for it
    cost: Cost | None  # None: there is no model of it
    start: float  # seconds
    measured: float | None  # seconds that its work took here last; None: it has not run, or was interrupted

    @property
    def seconds(self) -> float:
        """Seconds of its work."""
        return self.cost.seconds if self.cost else 0.0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the main branch will cost with these parameters, data and machine."""

    params: Params
    facts: Facts
    machine: Machine
    stages: tuple[Planned, ...]

    @property
    def minutes(self) -> float:
        """Of all stages, under `scripts/reproduce.sh`, whose server starts meanwhile."""
        return sum(stage.seconds + stage.start for stage in self.stages) / 60

    @property
    def alone(self) -> float:
        """Minutes more if each stage is started alone, as under plain `dvc repro`."""
        none = Cost(seconds=0.0)
        starts = (start(stage.cost or none, self.machine, served=False) - stage.start for stage in self.stages)
        return max(0.0, sum(starts)) / 60

    @property
    def control(self) -> float:
        """Minutes less if the control without a GNN gains nothing: it stops early, and its vectors are M_de's."""
        mgt, work = self.params.mgt, {stage.address: stage.seconds for stage in self.stages}
        steps = (mgt.gnn_epochs + mgt.epochs) * gnn_batches(self.params, self.facts.train)[0]
        trained = min(1.0, mgt.patience * mgt.evaluate_every / max(1, steps))
        return ((1 - trained) * work.get("train_no_gnn", 0.0) + work.get("cache_passages@no_gnn", 0.0)) / 60

    @property
    def disk(self) -> float:
        """Bytes of all artifacts; DVC links its cache to them where the file system can."""
        return sum(stage.cost.disk for stage in self.stages if stage.cost)

    @property
    def memory(self) -> float:
        """Bytes at the highest peak."""
        return max((stage.cost.memory for stage in self.stages if stage.cost), default=0.0)

    @property
    def unplanned(self) -> list[str]:
        """Stages without a model."""
        return [stage.address for stage in self.stages if stage.cost is None]


def plan(
    params: Params, facts: Facts, machine: Machine, stages: Iterable[Declared], *, times: Path | None = TIMES
) -> Plan:
    """Plan the main branch.

    Args:
        stages: those of the main branch.
        times: folder of the times that earlier runs took; None: they are not looked at.
    """
    setting, planned = Setting(params, facts, machine), []
    for stage in stages:
        cost = cost_of(stage, setting)
        seconds = start(cost or Cost(seconds=0.0), machine, served=True)
        planned.append(
            Planned(
                address=stage.address, cost=cost, start=seconds, measured=_measured(stage, times) if times else None
            )
        )
    return Plan(params=params, facts=facts, machine=machine, stages=tuple(planned))


def _measured(stage: Declared, times: Path) -> float | None:
    path = times / f"{artifact_name(stage.outs[0])}.json"
    seconds = json.loads(path.read_text(encoding="utf-8"))["seconds"] if path.is_file() else None
    return None if seconds is None else float(seconds)


def hurts(of: Plan) -> list[str]:
    """A sentence for each thing that will make results bad or the run fail, the worst first, with its cure."""
    params, facts = of.params, of.facts
    limit, read, longest = params.encoder.passage_length, facts.passage_tokens, of.machine.model.tokens
    found = []
    if of.memory > 0.9 * of.machine.memory:
        worst = max(
            (stage for stage in of.stages if stage.cost), key=lambda stage: stage.cost.memory if stage.cost else 0
        )
        found.append(
            f"{worst.address} needs {size(int(of.memory))} of memory, there are {size(of.machine.memory)}: "
            "lower its batch_size or chunk_size, or the lengths"
        )
    if read.unread(limit) > CUT:
        cure = f"raise encoder.passage_length, up to {longest}" if limit < longest else cutting(longest)
        found.append(
            f"passages are cut after {limit} tokens: {read.unread(limit):.0%} of the text is never read; {cure}"
        )
    elif read.longer(longest) > LONG_TEXTS:
        longer = f"{read.longer(longest):.0%} of the texts are longer than the {longest} tokens that the model reads"
        found.append(f"{longer}: {cutting(longest)}")
    length = params.encoder.query_length
    if facts.query_tokens.unread(length) > CUT:
        unread = facts.query_tokens.unread(length)
        found.append(f"queries are cut after {length} tokens: {unread:.0%} is never read; raise encoder.query_length")
    if facts.train < FEW_QUERIES:
        found.append(
            f"{facts.train} training queries are few: training and graph gain little with less than some hundred"
        )
    if facts.dev < FEW_DEV:
        found.append(
            f"{facts.dev} dev queries are few: what is chosen by their score is chosen by chance; "
            "raise data.dev_fraction, or add dev queries"
        )
    steps = params.mgt.gnn_epochs * gnn_batches(params, facts.train)[0]
    if params.mgt.gnn_epochs and steps < FEW_STEPS:
        found.append(f"the GNN trains for {steps} steps, it needs about 100: raise mgt.gnn_epochs")
    if facts.train < facts.available:
        found.append(
            f"{facts.available - facts.train:,} of {facts.available:,} training queries are left out: "
            "the graph gains with every query; raise data.train_queries"
        )
    return found


def cutting(longest: int) -> str:
    """The advice to cut texts into passages that a model of so many tokens reads whole."""
    words = round(0.6 * longest / 10) * 10  # an English word has about 1.3 tokens, and some texts have more
    setting = f"'data.passages={{words: {words}, overlap: {words // 6}}}'"
    return f"cut them: the same `gnn-encoder init` again, with --over {setting} at its end"


def sampled(of: Plan) -> list[str]:
    """What is only a part of what there is."""
    params, facts = of.params, of.facts
    parts = []
    if facts.train < facts.available:
        parts.append(f"{facts.train:,} of {facts.available:,} training queries (data.train_queries)")
    if facts.dev > params.dev.queries:
        parts.append(f"{params.dev.queries:,} of {facts.dev:,} dev queries, while training (dev.queries)")
    ranks = min(params.denoise.range_max, facts.passages) - params.denoise.range_min
    if params.denoise.candidates < ranks:
        parts.append(f"{params.denoise.candidates} of {ranks} candidates a query (denoise.candidates)")
    return parts


def as_json(of: Plan) -> dict[str, Any]:
    """The plan as plain values: minutes, bytes, shares of 0..1."""
    params, facts = of.params, of.facts
    return {
        "machine": of.machine.name,
        "minutes": round(of.minutes, 2),
        "minutes_less_if_the_control_gains_nothing": round(of.control, 2),
        "minutes_more_under_plain_dvc_repro": round(of.alone, 2),
        "disk_bytes": int(of.disk),
        "memory_bytes": int(of.memory),
        "unread": {
            "passages": round(facts.passage_tokens.unread(params.encoder.passage_length), 4),
            "queries": round(facts.query_tokens.unread(params.encoder.query_length), 4),
        },
        "sampled": sampled(of),
        "hurts": hurts(of),
        "not_planned": of.unplanned,
        "stages": [
            {
                "stage": stage.address,
                "start_seconds": round(stage.start, 2),
                "seconds": round(stage.cost.seconds, 2) if stage.cost else None,
                "measured_seconds": stage.measured,
                "disk_bytes": int(stage.cost.disk) if stage.cost else None,
                "memory_bytes": int(stage.cost.memory) if stage.cost else None,
            }
            for stage in of.stages
        ],
    }
