"""`gnn-encoder plan` and `gnn-encoder init --data`: data and machine are looked at, and what follows is told."""

import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from gnn_encoder.base.errors import UserError
from gnn_encoder.data.prepare import HIDDEN
from gnn_encoder.data.sources import open_source
from gnn_encoder.inspection.lengths import Lengths
from gnn_encoder.inspection.survey import survey
from gnn_encoder.pipeline import experiment
from gnn_encoder.pipeline.params import Encoder, Params
from gnn_encoder.pipeline.stage import read_stages
from gnn_encoder.planning.choice import CUT, LENGTH, LONG_TEXTS, PAIR, Choice, Chooser, best
from gnn_encoder.planning.facts import Facts
from gnn_encoder.planning.machine import Machine, measure
from gnn_encoder.planning.plan import Plan, main_branch, plan
from gnn_encoder.presenting.formats import named_counts, seconds, size
from gnn_encoder.text.device import device
from gnn_encoder.text.encoder import DualEncoder
from gnn_encoder.text.pretrained import Source, load_tokenizer, read_stated, resolve
from gnn_encoder.training.cross_encoder import PAIRS_AT_A_TIME

FACTOR = 1.5  # by which a prediction may miss
SAMPLE = 10_000  # most texts whose tokens are counted
GPU_TOKENS = "encoder.batch_tokens=65536"  # no result depends on it
UNKNOWN = 0.01  # share of unknown tokens from which the base model is said not to read the language
FEW_QUERIES, FEW_DEV = 300, 50  # training and dev queries


def plan_here(params: Params) -> Plan:
    """The plan of an experiment in the current folder."""
    facts, machine = _looked_at(params)
    return plan(params, facts, machine, main_branch(read_stages()))


def fit(
    source: str, path: Path | None, minutes: float | None, settings: Sequence[str], *, over: bool = False
) -> tuple[Choice, list[str]]:
    """Write a params.yaml that fits the data, this machine and the time.

    Args:
        source, path: data.source and data.path.
        minutes: that the main branch may take; None: any.
        settings: `KEY=VALUE` each; these values are planned with as they are.
        over: as for `experiment.init`.

    Returns:
        What was chosen, and a line for each value that changed. After an error params.yaml is as it was.
    """
    for setting in settings:
        if "=" not in setting:
            raise UserError(f"{setting!r} is no KEY=VALUE: leave a config out, and put quotes around blanks")
    given = [
        f"data.source={source}",
        *([] if path is None else [f"data.path={experiment.shown(str(path))}"]),
        *settings,
    ]
    if device().type == "cuda":
        given.insert(0, GPU_TOKENS)  # a setting of the user's own, behind it, wins
    fixed = {setting.partition("=")[0] for setting in given}
    every = [] if "data.train_queries" in fixed else ["data.train_queries=null"]
    base = experiment.preview([*given, *every], over=over)
    facts, machine = _looked_at(base, whole=True)
    stages = main_branch(read_stages())
    choice = Chooser(base=base, facts=facts, machine=machine, stages=stages, minutes=minutes, fixed=fixed).choose()
    encoder = choice.plan.params.encoder
    DualEncoder.from_pretrained(encoder)
    command = ["--data", source, *([] if path is None else ["--path", str(path)])]
    command += [] if minutes is None else ["--minutes", f"{minutes:g}"]
    return choice, experiment.init(given, over=over, chosen=choice.values, by=shlex.join([*command, *settings]))


def _looked_at(params: Params, *, whole: bool = False) -> tuple[Facts, Machine]:
    """The data's facts, and the machine measured with its texts at the experiment's lengths, or nearly whole ones."""
    encoder = params.encoder
    tokenizer = load_tokenizer(Source.of(encoder))
    found = survey(open_source(params.data), encoder, tokenizer, sample_size=SAMPLE, seed=params.seed)
    facts = Facts.of(found, params.data, HIDDEN)
    length, pair = encoder.passage_length, params.train_cross_encoder.max_length
    if whole:
        wish = best(facts, int(facts.passage_tokens.counts[-1]), params.retrieve.depth)
        length, pair = wish[LENGTH], wish[PAIR]
    sys.stderr.write("measuring this machine, up to a minute\n")
    texts = found.passages.texts, found.splits["train"].texts
    return facts, measure(params, tokenizer, *texts, passage_length=length, pair_length=pair)


def _too_large(of: Plan) -> Iterator[str]:
    """Stages whose data alone are more than the main memory, of each cure the worst."""
    ascending = sorted(of.memory.items(), key=lambda one: one[1].bytes)
    for cure, (stage, needed) in {needed.cure: (stage, needed.bytes) for stage, needed in ascending}.items():
        if needed > (there := of.machine.main_memory):
            yield f"{stage} needs about {size(int(needed))} of main memory, and this machine has {size(there)}: {cure}"


def _out_of_memory(of: Plan) -> Iterator[str]:
    """Trainings whose activations alone are more than the memory."""
    params, memory = of.params, of.machine.memory
    frozen, length = params.encoder.frozen_layers, params.encoder.passage_length
    texts = {"encoder.chunk_size": params.encoder.chunk_size}
    kept = {name: count * of.machine.activations(length, frozen) for name, count in texts.items()}
    pair = of.machine.activations(params.train_cross_encoder.max_length, 0)
    for name, needed in (kept | {"train_cross_encoder.max_length": PAIRS_AT_A_TIME * pair}).items():
        if needed > memory:
            told = f"is {params.value(name)}, with which training keeps about {size(int(needed))} in memory"
            yield f"{name} {told}, and this machine has {size(memory)}: lower it"


def _unread(of: Plan) -> Iterator[str]:
    """Texts in a language that the base model does not know, and long ones."""
    encoder, facts, longest = of.params.encoder, of.facts, of.machine.tokens
    read, asked, limit = facts.passage_tokens, facts.query_tokens, encoder.passage_length
    shares = {"passages": read.unknown, "queries": asked.unknown}
    if told := [f"{share:.0%} of the {kind}' tokens" for kind, share in shares.items() if share > UNKNOWN]:
        rule = f"{' and '.join(told)} are unknown to it, so that it cannot read this language"
        yield f"{encoder.model}: {rule}; set encoder.model to a multilingual one, such as XLM-R or multilingual E5"
    words = round(0.6 * longest / 10) * 10  # an English word has about 1.3 tokens, and some texts have more
    cutting = f"cut them: `python scripts/make_beir.py cut FOLDER CUT --words {words} --overlap {words // 6}`"
    if read.half() < LONG_TEXTS * len(read.counts):
        few = f"{read.half():,} of {len(read.counts):,} passages, up to {read.counts[-1]:,} in one"
        yield f"half of all tokens are in {few}: leave them out, or {cutting}"
    if read.unread(limit) > CUT:
        helps = limit < longest and read.unread(longest) <= CUT
        yield _cut("passages", read, limit, f"raise encoder.passage_length, up to {longest}" if helps else cutting)
    elif read.longer(longest) > LONG_TEXTS:
        longer = f"{read.longer(longest):.0%} of the texts are longer than the {longest} tokens that the model reads"
        yield f"{longer}: {cutting}"
    if asked.unread(encoder.query_length) > CUT:
        yield _cut("queries", asked, encoder.query_length, "raise encoder.query_length")


def _cut(kind: str, tokens: Lengths, limit: int, cure: str) -> str:
    longer = f"{tokens.longer(limit):.0%} of the {kind} are cut after {limit} tokens"
    return f"{longer}, and {tokens.unread(limit):.0%} of one is not read on average: {cure}"


def base_model(params: Encoder) -> list[str]:
    """Refuse a base model on this machine that cannot be trained or searched with, and tell how it is used.

    Of one elsewhere nothing is told.
    """
    if not Path(resolve(params.model)).is_dir():
        return []
    encoder = DualEncoder.from_pretrained(params)
    encoder.freeze_lower(params.frozen_layers)
    return [how_it_is_used(params)]


def how_it_is_used(params: Encoder) -> str:
    """What params.yaml and the model's own files say about its use."""
    return read_stated(Source.of(params)).description(params)


# --- as text ----------------------------------------------------------------------------------------------------------


def table(of: Plan) -> Iterator[str]:
    """A line a stage, and one of all."""
    width = max(map(len, of.stages))
    for name, took in {**of.stages, "total": 60 * of.minutes}.items():
        yield f"{name:{width}}  {seconds(took):>9}"


def summary(of: Plan) -> Iterator[str]:
    """Model, data and time in a few lines."""
    facts, few, many = of.facts, of.minutes / FACTOR, of.minutes * FACTOR
    queries = f"queries: {facts.available:,} to train with, {facts.dev:,} dev, {facts.test:,} test"
    yield f"{how_it_is_used(of.params.encoder)}; it reads {of.machine.tokens} tokens"
    yield f"{facts.passages:,} passages; {queries}"
    yield f"the main branch will take about {of.minutes:.1f} min here, {few:.0f} to {many:.0f} ({of.machine.name})"
    if facts.dropped:
        yield f"  left out or replaced: {named_counts(facts.dropped)}"
    slow = sorted(of.stages.items(), key=lambda stage: -stage[1])[:3]
    yield f"  longest: {', '.join(f'{name} {seconds(took)}' for name, took in slow)}"


def hurts(of: Plan, minutes: float | None = None) -> Iterator[str]:
    """A sentence for each thing that will hurt, the worst first, with its cure; `minutes`: those allowed."""
    if minutes is not None and of.minutes > minutes:
        starts = f"{len(of.stages) * of.machine.speeds['start'] / 60:.0f} of them to start {len(of.stages)} stages"
        least = f"the least takes about {of.minutes:.0f}, {starts}; allow these, or bring fewer passages"
        yield f"does not fit into {minutes:g} minutes: {least}"
    if of.disk > (free := shutil.disk_usage(".").free):
        cure = "free some, or set mgt.edge_features to product, or cache_passages.dtype to float16"
        yield f"the main branch writes about {size(int(of.disk))}, and {size(free)} are free on the disk: {cure}"
    yield from _too_large(of)
    yield from _out_of_memory(of)
    yield from _unread(of)
    facts = of.facts
    if facts.copies:
        rule = "no copy is a negative of a query for which another is relevant, but each fills a rank"
        yield f"{facts.copies:,} passages are exact copies of another: {rule}; keep one of each"
    if facts.own:
        yield f"{facts.own:,} queries are passages themselves: none of them finds itself, in training and in measures"
    if facts.train < FEW_QUERIES:
        yield f"{facts.train} training queries are few: training and graph gain little with less than some hundred"
    if facts.dev < FEW_DEV:
        cure = "add dev queries; where the source has none, raise data.dev_fraction"
        yield f"{facts.dev} dev queries are few: what is chosen by their score is chosen by chance; {cure}"
    if facts.train < facts.available:
        left = f"the labels of {facts.available - facts.train:,} of {facts.available:,} training queries are left out"
        yield f"{left}: the graph gains with every one; raise data.train_queries"
