"""What a run of the main branch will take, stage by stage, and what of it will hurt."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gnn_encoder.pipeline.declared import PIPELINE, Declared
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.stage import artifact_name
from gnn_encoder.planning.facts import Facts
from gnn_encoder.planning.machine import Machine
from gnn_encoder.planning.stages import Setting, count, mgt_steps

LONG_TEXTS = 0.03  # share of texts longer than the model reads from which cutting them is suggested
CUT = 0.05  # share of a kind of token that may go unread before a plan warns
FEW_QUERIES = 300  # training queries
FEW_DEV = 50  # dev queries
FEW_STEPS = 40  # steps of the GNN
DVC = 0.3  # seconds that DVC adds to each stage
LIGHT_STAGES, LIGHT_START = ("prepare", "bm25"), 0.25  # those that import no torch, and their share of a start


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A stage of the main branch; times in seconds."""

    address: str  # DVC's name for it
    start: float  # of its process, its model and DVC
    work: float  # its steps, each with the seconds of a step
    measured: float | None  # that its work took here last; None: it has not run, or was interrupted


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the main branch will take with these parameters, data and machine."""

    params: Params
    facts: Facts
    machine: Machine
    stages: tuple[Planned, ...]

    @property
    def minutes(self) -> float:
        """Of all stages."""
        return sum(stage.start + stage.work for stage in self.stages) / 60


def plan(
    params: Params, facts: Facts, machine: Machine, stages: Iterable[Declared], *, times: Path | None = None
) -> Plan:
    """Plan the main branch.

    Args:
        stages: those of the main branch.
        times: folder of the times that earlier runs took; None: they are not looked at.
    """
    at, speeds, planned = Setting(params, facts, machine.tokens), {**machine.speeds, "other": 1.0}, []
    for stage in stages:
        start = DVC + speeds["start"] * (LIGHT_START if stage.name in LIGHT_STAGES else 1)
        work = sum(number * speeds[kind] for kind, number in count(stage, at).items())
        measured = _measured(stage, times) if times else None
        planned.append(Planned(address=stage.address, start=start, work=work, measured=measured))
    return Plan(params=params, facts=facts, machine=machine, stages=tuple(planned))


def _measured(stage: Declared, times: Path) -> float | None:
    path = times / f"{artifact_name(stage.outs[0])}.json"
    seconds = json.loads(path.read_text(encoding="utf-8"))["seconds"] if path.is_file() else None
    return None if seconds is None else float(seconds)


def main_branch(stages: Iterable[Declared]) -> list[Declared]:
    """The stages that plain `dvc repro` runs: those of the root's dvc.yaml."""
    return [stage for stage in stages if stage.file == Path(PIPELINE)]


def hurts(of: Plan) -> list[str]:
    """A sentence for each thing that will make results bad, the worst first, with its cure."""
    return [*_of_lengths(of), *_of_counts(of)]


def _of_lengths(of: Plan) -> Iterator[str]:
    encoder, read, longest = of.params.encoder, of.facts.passage_tokens, of.machine.tokens
    limit, asked = encoder.passage_length, of.facts.query_tokens.unread(encoder.query_length)
    words = round(0.6 * longest / 10) * 10  # an English word has about 1.3 tokens, and some texts have more
    setting = f"'data.passages={{words: {words}, overlap: {words // 6}}}'"
    cutting = f"cut them: the same `gnn-encoder init` again, with --over {setting} at its end"
    if read.unread(limit) > CUT:
        cure = f"raise encoder.passage_length, up to {longest}" if limit < longest else cutting
        yield f"passages are cut after {limit} tokens: {read.unread(limit):.0%} of the text is never read; {cure}"
    elif read.longer(longest) > LONG_TEXTS:
        longer = f"{read.longer(longest):.0%} of the texts are longer than the {longest} tokens that the model reads"
        yield f"{longer}: {cutting}"
    if asked > CUT:
        told = f"{asked:.0%} is never read; raise encoder.query_length"
        yield f"queries are cut after {encoder.query_length} tokens: {told}"


def _of_counts(of: Plan) -> Iterator[str]:
    facts, passes = of.facts, of.params.mgt.gnn_epochs
    if facts.train < FEW_QUERIES:
        yield f"{facts.train} training queries are few: training and graph gain little with less than some hundred"
    if facts.dev < FEW_DEV:
        cure = "raise data.dev_fraction, or add dev queries"
        yield f"{facts.dev} dev queries are few: what is chosen by their score is chosen by chance; {cure}"
    steps = passes * mgt_steps(of.params, facts.train)[0]
    if passes and steps < FEW_STEPS:
        yield f"the GNN trains for {steps} steps, it needs about 100: raise mgt.gnn_epochs"
    if facts.train < facts.available:
        yield (
            f"the labels of {facts.available - facts.train:,} of {facts.available:,} training queries are left out: "
            "the graph gains with every one; raise data.train_queries"
        )


def as_json(of: Plan) -> dict[str, Any]:
    """The plan as plain values: minutes, and seconds of each stage."""
    stages = [vars(stage) for stage in of.stages]
    return {"machine": of.machine.name, "minutes": of.minutes, "hurts": hurts(of), "stages": stages}
