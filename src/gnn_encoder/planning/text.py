"""A plan, a survey and a choice as text."""

from collections.abc import Iterator

from gnn_encoder.planning.facts import Facts
from gnn_encoder.planning.plan import Plan, Planned, sampled
from gnn_encoder.presenting.formats import NOTHING, count, seconds, size

FACTOR = 1.5  # by which a prediction may miss


def found(facts: Facts) -> Iterator[str]:
    """What is in the data."""
    read, asked = facts.passage_tokens, facts.query_tokens
    yield f"passages  {facts.passages:>10,}   tokens: median {read.whole(0.5)}, 95% up to {read.whole(0.95)}"
    yield (
        f"queries   {facts.available:>10,}   to train with, {facts.dev:,} dev, {facts.test:,} test; "
        f"tokens: median {asked.whole(0.5)}, 95% up to {asked.whole(0.95)}"
    )
    yield (
        f"labels    {facts.labels:>10,}   {facts.labels_a_query:.1f} a query; {facts.labelled_passages:,} passages are "
        f"labelled, each by {facts.queries_a_labelled_passage:.1f} queries"
    )
    if facts.left_out:
        yield "left out  " + ", ".join(f"{number:,} {why.replace('_', ' ')}" for why, number in facts.left_out.items())


def table(of: Plan) -> Iterator[str]:
    """A line a stage: seconds of its start and work, disk, memory; seconds measured where it has run here."""
    measured = any(stage.measured is not None for stage in of.stages)
    width = max(len(stage.address) for stage in of.stages)
    yield f"{'stage':{width}}  {'start':>7}  {'work':>9}  {'disk':>9}  {'memory':>9}" + (
        f"  {'measured':>9}" if measured else ""
    )
    for stage in of.stages:
        yield _line(stage, width) + (f"  {seconds(stage.measured):>9}" if measured else "")
    starts, work = sum(stage.start for stage in of.stages), sum(stage.seconds for stage in of.stages)
    total = f"{'total':{width}}  {seconds(starts):>7}  {seconds(work):>9}"
    total += f"  {size(int(of.disk)):>9}  {size(int(of.memory)):>9}"
    if measured:
        total += f"  {seconds(sum(stage.measured or 0.0 for stage in of.stages)):>9}"
    yield total
    if measured:
        yield from _compared(of)


def summary(of: Plan) -> Iterator[str]:
    """The plan in some lines."""
    facts, encoder = of.facts, of.params.encoder
    few, many = (of.minutes - of.control) / FACTOR, of.minutes * FACTOR
    yield f"the main branch will take about {of.minutes:.1f} min here, {few:.0f} to {many:.0f} ({of.machine.name})"
    yield f"  {of.control:.1f} min less if the control, train_no_gnn, gains nothing: then it stops early"
    yield f"  under scripts/reproduce.sh; plain `dvc repro` takes {of.alone:.1f} min more to start its stages"
    slow = sorted(of.stages, key=lambda stage: -stage.seconds)[:3]
    yield f"  longest: {', '.join(f'{stage.address} {seconds(stage.seconds)}' for stage in slow)}"
    yield f"  disk {size(int(of.disk))}, memory {size(int(of.memory))} at the peak"
    passages = facts.passage_tokens.unread(encoder.passage_length)
    queries = facts.query_tokens.unread(encoder.query_length)
    yield f"  passages are read up to {encoder.passage_length} tokens: {passages:.1%} of their text is not read"
    yield f"  queries are read up to {encoder.query_length} tokens: {queries:.1%} of their text is not read"
    if (teacher := of.params.train_cross_encoder.model) not in (None, encoder.model):
        yield f"  M_ce is planned as if it started from encoder.model: {teacher} was not timed"
    for part in sampled(of):
        yield f"  sampled: {part}"
    if of.unplanned:
        yield f"  not planned: {', '.join(of.unplanned)}"


def _line(stage: Planned, width: int) -> str:
    if stage.cost is None:
        return f"{stage.address:{width}}  {seconds(stage.start):>7}  not planned"
    cost = stage.cost
    disk = size(int(cost.disk)) if cost.disk else NOTHING
    return (
        f"{stage.address:{width}}  {seconds(stage.start):>7}  {seconds(cost.seconds):>9}  {disk:>9}"
        f"  {size(int(cost.memory)):>9}"
    )


def _compared(of: Plan) -> Iterator[str]:
    """Predicted against measured work, over the stages that ran here."""
    ran = [stage for stage in of.stages if stage.measured is not None and stage.cost]
    predicted, measured = sum(stage.seconds for stage in ran), sum(stage.measured or 0.0 for stage in ran)
    ratio = predicted / max(measured, 0.1)
    yield (
        f"work of the {count(len(ran))} stages that ran here: predicted {seconds(predicted)}, measured "
        f"{seconds(measured)}, factor {ratio:.2f}"
    )
