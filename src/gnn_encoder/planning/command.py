"""`gnn-encoder plan` and `gnn-encoder init --data`: data and machine are looked at, and what follows is told."""

import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from gnn_encoder.core.errors import UserError
from gnn_encoder.data.sources import open_source
from gnn_encoder.inspection.survey import survey
from gnn_encoder.models.pretrained import Source, load_tokenizer
from gnn_encoder.pipeline import experiment
from gnn_encoder.pipeline.declared import read_stages
from gnn_encoder.pipeline.params import Params, load_params
from gnn_encoder.pipeline.stage import TIMES
from gnn_encoder.planning.choice import OTHER_BRANCHES, Choice, Chooser, best
from gnn_encoder.planning.facts import Facts
from gnn_encoder.planning.machine import Machine, measure
from gnn_encoder.planning.plan import Plan, Planned, hurts, main_branch, plan
from gnn_encoder.presenting.formats import seconds

FACTOR = 1.5  # by which a prediction may miss
SAMPLE = 10_000  # most texts whose tokens are counted


def plan_here(path: Path) -> Plan:
    """The plan of an experiment in the current folder."""
    params = load_params(path)
    facts, machine = _looked_at(params)
    return plan(params, facts, machine, main_branch(read_stages()), times=TIMES)


def fit(
    source: str, path: Path | None, minutes: float | None, settings: Sequence[str], *, over: bool = False
) -> Choice:
    """Write a params.yaml that fits the data, this machine and the time.

    Args:
        source, path: data.source and data.path.
        minutes: that the main branch may take; None: any.
        settings: `KEY=VALUE` each; these values are planned with as they are.
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
        rule = "must be above 0; leave it out to take the time that quality asks for"
        raise UserError(f"--minutes is {minutes:g}: {rule}")
    given = [f"data.source={source}", *([] if path is None else [f"data.path={path}"]), *settings]
    fixed = {setting.partition("=")[0] for setting in given}
    # How many of the queries are used is chosen later, if the user did not.
    every = [] if "data.train_queries" in fixed else ["data.train_queries=null"]
    base = experiment.preview([*given, *every], over=over)
    facts, machine = _looked_at(base, whole=True)
    stages = main_branch(read_stages())
    choice = Chooser(base=base, facts=facts, machine=machine, stages=stages, minutes=minutes, fixed=fixed).choose()
    command = ["--data", source, *([] if path is None else ["--path", str(path)])]
    command += [] if minutes is None else ["--minutes", f"{minutes:g}"]
    experiment.init(given, over=over, chosen=choice.values, by=shlex.join([*command, *settings]))
    return choice


def _looked_at(params: Params, *, whole: bool = False) -> tuple[Facts, Machine]:
    """The data's facts, and the machine measured with its texts at the experiment's lengths, or nearly whole ones."""
    encoder = params.encoder
    tokenizer = load_tokenizer(Source(encoder.model, encoder.revision, encoder.trust_remote_code))
    found = survey(open_source(params.data), encoder, tokenizer, sample_size=SAMPLE, seed=params.seed)
    facts = Facts.of(found, params.data, params.pair.unlabelled_fraction)
    length, pair = encoder.passage_length, params.train_cross_encoder.max_length
    if whole:
        wish = best(facts, int(facts.passage_tokens.counts[-1]))
        length, pair = wish.passage_length, wish.pair_length
    sys.stderr.write("measuring this machine, up to a minute\n")
    texts = found.passages.texts, found.splits["train"].texts
    return facts, measure(params, tokenizer, *texts, passage_length=length, pair_length=pair)


# --- as text ----------------------------------------------------------------------------------------------------------


def told(choice: Choice) -> Iterator[tuple[str, bool]]:
    """What init found and chose, as lines, each with whether it is a warning."""
    yield from ((line, False) for line in (*_found(choice.plan.facts), ""))
    for one in choice.values:
        if one.name.partition(".")[0] not in OTHER_BRANCHES:
            yield f"{one.name:38} {experiment.shown(one.value):>14}   {one.why}", False
    yield from ((line, False) for line in ("", *summary(choice.plan)))
    if not choice.fits:
        least = f"the least takes about {choice.plan.minutes:.0f}; allow these, or bring fewer passages"
        yield f"does not fit into {choice.minutes:g} minutes: {least}", True
    yield from ((line, True) for line in hurts(choice.plan))


def _found(facts: Facts) -> Iterator[str]:
    read, asked = facts.passage_tokens, facts.query_tokens
    yield f"passages  {facts.passages:>10,}   tokens: median {read.whole(0.5)}, 95% up to {read.whole(0.95)}"
    yield (
        f"queries   {facts.available:>10,}   to train with, {facts.dev:,} dev, {facts.test:,} test; "
        f"tokens: median {asked.whole(0.5)}, 95% up to {asked.whole(0.95)}"
    )
    yield f"labels    {facts.labels_a_query:>10.1f}   a query; {facts.queries_a_label:.1f} queries a labelled passage"


def table(of: Plan) -> Iterator[str]:
    """A line a stage: seconds of its start and of its work, and those that its work took where it has run here."""
    width = max(len(stage.address) for stage in of.stages)
    measured = [one.measured for one in of.stages if one.measured is not None]
    start, work = sum(one.start for one in of.stages), sum(one.work for one in of.stages)
    total = Planned(address="total", start=start, work=work, measured=sum(measured) if measured else None)
    yield f"{'stage':{width}}  {'start':>7}  {'work':>9}  {'measured':>9}"
    for one in (*of.stages, total):
        yield f"{one.address:{width}}  {seconds(one.start):>7}  {seconds(one.work):>9}  {seconds(one.measured):>9}"


def summary(of: Plan) -> Iterator[str]:
    """The plan in some lines."""
    encoder, teacher = of.params.encoder, of.params.train_cross_encoder.model
    few, many = of.minutes / FACTOR, of.minutes * FACTOR
    yield f"the main branch will take about {of.minutes:.1f} min here, {few:.0f} to {many:.0f} ({of.machine.name})"
    slow = sorted(of.stages, key=lambda stage: -stage.work)[:3]
    yield f"  longest: {', '.join(f'{stage.address} {seconds(stage.work)}' for stage in slow)}"
    if teacher not in (None, encoder.model):
        yield f"  M_ce is planned as if it started from encoder.model: {teacher} was not timed"
