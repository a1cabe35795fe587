"""`gnn-encoder plan` and `gnn-encoder init --data`: data and machine are looked at, and what follows is told."""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from transformers import PreTrainedTokenizerBase

from gnn_encoder.core.errors import UserError
from gnn_encoder.data.prepared import is_prepared
from gnn_encoder.data.sources import open_source
from gnn_encoder.models.pretrained import Source, load_tokenizer
from gnn_encoder.pipeline import experiment, project
from gnn_encoder.pipeline.declared import read_stages
from gnn_encoder.pipeline.params import Params, load_params
from gnn_encoder.planning import text
from gnn_encoder.planning.choice import Choice, choose, enough
from gnn_encoder.planning.facts import Facts, survey_prepared, survey_source
from gnn_encoder.planning.machine import Machine, measure, recall
from gnn_encoder.planning.plan import Plan, hurts, plan
from gnn_encoder.planning.stages import branch

BUSY = 0.75  # load a core from which on a machine is no quiet one


def plan_here(path: Path, *, brief: bool = False) -> Plan:
    """The plan of an experiment in the current folder.

    Args:
        brief: take the machine's speeds as they were measured last, if they were.
    """
    params = load_params(path)
    machine = (recall(params) if brief else None) or _measured(params)
    return plan(params, _facts(params), machine, branch(read_stages()))


def fit(
    source: str, path: Path | None, minutes: float | None, settings: Sequence[str], *, over: bool = False
) -> tuple[Facts, Choice]:
    """Write a params.yaml that fits the data, this machine and the time.

    Args:
        source, path: data.source and data.path.
        minutes: that the main branch may take; None: any.
        settings: `KEY=VALUE` each; these values win over what would be chosen.
        over: as for `experiment.init`.

    Raises:
        UserError: the data, a setting or the resulting experiment is wrong; params.yaml then stays as it was.
    """
    for setting in settings:
        if "=" not in setting and setting.endswith((".yaml", ".yml")):
            raise UserError(f"{setting!r}: a config and --data would choose the same values; give one of the two")
        if "=" not in setting:
            raise UserError(f"{setting!r} is no KEY=VALUE; put quotes around a setting that has blanks")
    if minutes is not None and minutes <= 0:
        raise UserError(
            f"--minutes is {minutes:g}: must be above 0; leave it out to take the time that quality asks for"
        )
    place = [] if path is None else [f"data.path={path}"]
    given = [f"data.source={source}", *place, *settings]
    base = experiment.preview([*given, *_all_queries(settings)], over=over)
    facts = survey_source(open_source(base.data), base, _tokenizer(base))
    machine = _measured(base)
    fixed = {setting.partition("=")[0] for setting in given}
    choice = choose(base, facts, machine, branch(read_stages()), minutes=minutes, fixed=fixed)
    command = ["--data", source, *([] if path is None else ["--path", str(path)])]
    command += [] if minutes is None else ["--minutes", f"{minutes:g}"]
    experiment.init(given, over=over, chosen=choice.values, command=[*command, *settings])
    return facts, choice


def told(facts: Facts, choice: Choice) -> Iterator[tuple[str, bool]]:
    """What init found and chose, as lines, each with whether it is a warning."""
    for line in text.found(facts):
        yield line, False
    yield "", False
    for one in choice.values:
        yield f"{one.name:38} {experiment.shown(one.value):>14}   {one.why}", False
    yield "", False
    for line in text.summary(choice.plan):
        yield line, False
    if choice.minutes is not None and max(choice.plan.minutes, enough(facts)) < choice.minutes:
        worth = f"more than about {enough(facts):.1f} min gained nothing on sets of this size"
        yield f"  {worth}, and the least near that was taken; without --minutes quality alone decides", False
    if not choice.fits:
        yield (
            f"does not fit into {choice.minutes:g} minutes: the least that is worth running here takes about "
            f"{choice.plan.minutes:.0f}; allow these, or bring fewer passages",
            True,
        )
    for line in hurts(choice.plan):
        yield line, True


def _all_queries(settings: Sequence[str]) -> list[str]:
    """So that facts are those of all queries: how many are used is chosen later, if the user did not."""
    set_already = any(setting.startswith("data.train_queries=") for setting in settings)
    return [] if set_already else ["data.train_queries=null"]


def _facts(params: Params) -> Facts:
    tokenizer = _tokenizer(params)
    if is_prepared(project.PREPARED, params):
        return survey_prepared(project.PREPARED, params, tokenizer)
    return survey_source(open_source(params.data), params, tokenizer)


def _measured(params: Params) -> Machine:
    began, load, cores = time.perf_counter(), os.getloadavg()[0], os.cpu_count() or 1
    sys.stderr.write("measuring this machine, up to a minute\n")
    found = measure(params)
    sys.stderr.write(f"measured this machine in {time.perf_counter() - began:.0f} s\n")
    if load > BUSY * cores:
        slow = f"other programs were at work on it (load {load:.1f} on {cores} cores), so that it looks slow"
        sys.stderr.write(f"! {slow}: the minutes are for a machine as busy as that; run this again when it is quiet\n")
    return found


def _tokenizer(params: Params) -> PreTrainedTokenizerBase:
    encoder = params.encoder
    return load_tokenizer(Source(encoder.model, encoder.revision, encoder.trust_remote_code))
