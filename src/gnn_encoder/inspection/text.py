"""A survey as text."""

from collections.abc import Iterator

from gnn_encoder.base.errors import shorten
from gnn_encoder.data.rows import Source
from gnn_encoder.inspection.lengths import Lengths
from gnn_encoder.inspection.survey import PassageSurvey, SplitSurvey, Survey
from gnn_encoder.pipeline.params import Data, Params
from gnn_encoder.presenting.formats import named_counts, shortened, size

SHOWN = 200  # characters of an example
INDENT = "  "


def render(params: Params, source: Source, found: Survey) -> Iterator[str]:
    """Yield the survey as lines of text, and beside it what the experiment makes of the data."""
    data, encoder = params.data, params.encoder
    yield from _origin(data, source)
    if found.dropped:
        yield f"{INDENT}left out or replaced: {named_counts(found.dropped)}"
    yield ""
    yield from _trained_with(data, {name: split.queries for name, split in found.splits.items()})
    yield ""
    yield from _passages(found.passages, encoder.passage_length)
    for split in found.splits.values():
        yield ""
        yield from _split(split, encoder.query_length)
    if found.own:
        yield ""
        yield f"queries that are passages themselves: {found.own:,}"


def _origin(data: Data, source: Source) -> Iterator[str]:
    named = data.path or data.name or (", ".join(data.names.model_dump().values()) if data.names else "")
    yield f"source {data.source}" + (f": {named}" if named else "")
    for path in source.files:
        yield f"{INDENT}{path.name:32} {size(path.stat().st_size)}"


def _trained_with(data: Data, queries: dict[str, int]) -> Iterator[str]:
    """What stage prepare makes of the train queries, where it does not train with all of them."""
    dev = 0 if "dev" in queries else max(1, round(data.dev_fraction * queries["train"]))
    others = queries["train"] - dev
    trained = min(others, data.train_queries or others)
    parts = [f"{dev:,} become dev (data.dev_fraction)"] if dev else []
    if trained < others:
        parts.append(f"a sample of {trained:,} is trained with (data.train_queries)")
    if parts:
        yield f"of the train queries {' and '.join(parts)}"


def _passages(found: PassageSurvey, limit: int) -> Iterator[str]:
    yield f"passages: {found.count:,}, {found.titled:,} with a title"
    yield from _lengths(found.lengths, found.count, "encoder.passage_length", limit)
    yield f"{INDENT}{found.copies:,} with title and text of an earlier one"
    if found.first:
        yield f"{INDENT}example {found.first.pid}: {_show(found.first.title, found.first.text)}"


def _split(split: SplitSurvey, limit: int) -> Iterator[str]:
    others = f", of {split.in_file:,} in the file" if split.in_file != split.queries else ""
    yield f"{split.name}: {split.queries:,} queries{others}"
    count, least, most = sum(split.each), min(split.each, default=0), max(split.each, default=0)
    grades = ", ".join(f"{count:,} of grade {grade}" for grade, count in split.grades.items())
    told = f"; judgements: {grades}" if grades else ""
    mean = count / max(1, split.queries)
    yield f"{INDENT}{count:,} {split.judged_by}, {mean:.2f} a query ({least} to {most}){told}"
    yield from _lengths(split.lengths, split.queries, "encoder.query_length", limit)
    for qid, text, answers in split.asked.head(1).iter_rows():
        yield f"{INDENT}example {qid}: {_show('', text)}"
        if answers:
            yield f"{INDENT * 2}answers: {', '.join(map(shorten, answers[:5]))}"


def _lengths(found: Lengths | None, of: int, parameter: str, limit: int) -> Iterator[str]:
    if found is None:
        return
    counts = found.counts
    which, most = "all" if len(counts) == of else f"a random sample of {len(counts):,}", found.whole(0.99)
    yield (
        f"{INDENT}tokens ({which}): mean {counts.mean():.1f}, median {found.whole(0.5)}, 99% up to {most}, "
        f"longest {counts[-1]}; {found.longer(limit):.1%} longer than {parameter}, {limit}"
    )
    if found.unknown:
        yield f"{INDENT}{found.unknown:.1%} of the tokens are unknown to the model"


def _show(title: str, text: str) -> str:
    return shortened(f"{title} | {text}" if title else text, SHOWN)
