"""Parameters that fit data, machine and time: first what quality asks for, then concessions until it ends in time.

The heuristics are what short runs on InsuranceQA and XQuAD showed. Concessions are ordered by what they cost in
quality: edge features by M_ce gain nothing over products while M_ce trains for minutes, then come steps beyond the
first hundred, and lengths that cut texts come last, since what is not read cannot be found: on XQuAD M_de that reads
56% of the text is five points below the untouched model that reads all, and training gains two.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Literal

from gnn_encoder.encoding.tokens import padded
from gnn_encoder.pipeline.declared import Declared
from gnn_encoder.pipeline.experiment import Chosen
from gnn_encoder.pipeline.params import Params
from gnn_encoder.planning.facts import Facts
from gnn_encoder.planning.machine import Machine
from gnn_encoder.planning.plan import CUT, LONG_TEXTS, Plan, plan
from gnn_encoder.planning.work import training_memory
from gnn_encoder.training.examples import steps_of

WHOLE = 0.95  # share of the passages that are read whole
WHOLE_QUERIES = 0.99
PAIR_TOKENS = 256  # most tokens of a pair
FOLD = 24  # fewest queries of a round of Masked Graph Training
MOST_FOLDS = 30  # beta of the paper: 5%, 20 folds; more make more steps of a pass
GNN_BATCH = 128
EVALUATIONS = 10  # of the GNN's training, and of its control's
TEACHER_BATCH, TEACHER_NEGATIVES = 16, 2
CHUNK_TOKENS = 32_768  # padded tokens that are encoded with gradient at a time
ABOUT = 0.8  # of the GNN's steps wanted are enough: its passes are whole
MOST_PASSES = 10  # over the queries in one training: further ones learn few queries by heart


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What time is spent on; every other choice follows from these and the data."""

    passage_length: int
    train_queries: int
    retriever_steps: int
    encoder_steps: int
    teacher_steps: int
    pair_length: int
    candidates: int
    k: int
    gnn_steps: int
    patience: int
    edge_features: Literal["cross_encoder", "product"]


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Chosen values, and what they will cost."""

    values: list[Chosen]
    plan: Plan
    minutes: float | None  # the time allowed; None: none was named

    @property
    def fits(self) -> bool:
        """Whether the run ends in the time allowed."""
        return self.minutes is None or self.plan.minutes <= self.minutes


def choose(
    base: Params,
    facts: Facts,
    machine: Machine,
    stages: Iterable[Declared],
    *,
    minutes: float | None,
    fixed: Collection[str] = (),
) -> Choice:
    """Choose what fits.

    Args:
        base: the experiment whose other values stay.
        stages: those of the main branch.
        minutes: the time that the main branch may take; None: any.
        fixed: dotted names of parameters that the user has set in `base`; they are not chosen.
    """
    every = list(stages)

    def planned(wish: Wish) -> Plan:
        return plan(_applied(base, values(wish)), sampled(wish), machine, every, times=None)

    def sampled(wish: Wish) -> Facts:
        return facts.sampled(wish.train_queries, base.pair.unlabelled_fraction)

    def values(wish: Wish) -> list[Chosen]:
        found = _values(wish, base, sampled(wish), machine, minutes)
        return [one for one in found if not _is_fixed(one.name, fixed)]

    wish = best(facts, machine)
    if minutes is not None:
        # A small set does not repay all the time allowed: for it, harmless concessions are made all the same.
        wish = concede(wish, harmless(), lambda one: planned(one).minutes, min(minutes, enough(facts)))
        wish = concede(wish, harmful(facts), lambda one: planned(one).minutes, minutes)
    return Choice(values=values(wish), plan=planned(wish), minutes=minutes)


def best(facts: Facts, machine: Machine) -> Wish:
    """What quality asks for."""
    longest = machine.model.tokens
    length = min(longest, padded(facts.passage_tokens.whole(WHOLE)))
    asked = query_length(facts, machine)
    return Wish(
        passage_length=length,
        train_queries=facts.train,
        retriever_steps=200,
        encoder_steps=400,
        teacher_steps=300,
        pair_length=min(longest, PAIR_TOKENS, asked + length),
        candidates=16,
        k=max(1, min(25, facts.passages // 20)),
        gnn_steps=100,
        patience=EVALUATIONS,
        edge_features="cross_encoder",
    )


def query_length(facts: Facts, machine: Machine) -> int:
    """Tokens of a query: nearly all whole, since they are short."""
    return min(machine.model.tokens, max(16, padded(facts.query_tokens.whole(WHOLE_QUERIES))))


def enough(facts: Facts) -> float:
    """Minutes that a set is worth: 3.5 for some hundred passages, which the untouched model already ranks well."""
    return max(3.5, facts.passages / 200, facts.train / 400)


Concession = tuple[str, Any]


def harmless() -> list[Concession]:
    """What quality hardly feels, the least harmful first."""
    return [
        ("edge_features", "product"),
        ("patience", 4),  # the control of a small set gains nothing, and would take longer than all else
        ("encoder_steps", 200),
        ("teacher_steps", 150),
        ("candidates", 8),
        ("k", 12),
        ("retriever_steps", 100),
        ("encoder_steps", 100),
        ("teacher_steps", 90),
        ("retriever_steps", 50),
        ("candidates", 6),
        ("gnn_steps", 60),
        ("candidates", 4),
        ("pair_length", 128),
        ("teacher_steps", 45),
        ("encoder_steps", 60),
        ("retriever_steps", 20),
        ("encoder_steps", 32),
        ("patience", 2),
        ("teacher_steps", 25),
    ]


def harmful(facts: Facts) -> list[Concession]:
    """What quality feels, the least harmful first. Passages are never cut so far that the plan warns of it."""
    every: list[Concession] = [
        ("pair_length", 96),
        *(("train_queries", facts.train // 2**n) for n in range(1, 12) if facts.train // 2**n >= 3000),
        ("train_queries", 3000),
        ("pair_length", 64),
        ("encoder_steps", 20),
        ("train_queries", 2000),
        ("pair_length", 48),
        ("gnn_steps", 40),
        ("train_queries", 1000),
        *(("passage_length", length) for length in (192, 160, 128, 96, 80, 64, 48)),
    ]
    read = facts.passage_tokens
    return [(name, value) for name, value in every if name != "passage_length" or read.unread(value) <= CUT]


def concede(wish: Wish, concessions: list[Concession], cost: Callable[[Wish], float], allowed: float) -> Wish:
    """Make concessions until the cost is within `allowed`, then take back those that turn out not to be needed."""
    made: list[Concession] = []
    for name, value in concessions:
        if cost(wish) <= allowed:
            break
        before = getattr(wish, name)
        if isinstance(value, str) or value < before:
            made.append((name, before))
            wish = replace(wish, **{name: value})
    for name, before in reversed(made):
        richer = replace(wish, **{name: before})
        if cost(richer) <= allowed:
            wish = richer
    return wish


# --- values -----------------------------------------------------------------------------------------------------------


def _values(wish: Wish, base: Params, facts: Facts, machine: Machine, minutes: float | None) -> Iterator[Chosen]:
    n = wish.train_queries
    yield from _data(wish, facts, minutes)
    yield from _lengths(wish, base, facts, machine)
    chunk = _chunk(wish, base, machine)
    batch = batch_size(n)
    yield from _training("train_retriever", n, batch, wish.retriever_steps, chunk, "finds candidates")
    yield from _candidates(wish, base, facts)
    passes, steps = _passes(n, TEACHER_BATCH, wish.teacher_steps)
    yield Chosen("train_cross_encoder.epochs", passes, f"{steps} steps")
    yield Chosen("train_cross_encoder.batch_size", min(TEACHER_BATCH, max(2, n // 2)), "queries")
    yield Chosen("train_cross_encoder.negatives", TEACHER_NEGATIVES, "candidates per query")
    yield from _training("train_dual_encoder", n, batch, wish.encoder_steps, chunk, "about 100 or more are wanted")
    yield from _graph(wish, base, n, facts, chunk)
    for section in ("pair.pretrain", "pair.finetune", "dual_cross.pretrain", "dual_cross.finetune"):
        yield Chosen(f"{section}.chunk_size", chunk, "as train_dual_encoder.chunk_size")


def _data(wish: Wish, facts: Facts, minutes: float | None) -> Iterator[Chosen]:
    if minutes is None or wish.train_queries >= facts.available:
        yield Chosen("data.train_queries", None, f"all {facts.available:,}")
    else:
        why = f"of {facts.available:,}: more do not fit into {minutes:g} minutes"
        yield Chosen("data.train_queries", wish.train_queries, why)


def _lengths(wish: Wish, base: Params, facts: Facts, machine: Machine) -> Iterator[Chosen]:
    read, longest, length = facts.passage_tokens, machine.model.tokens, wish.passage_length
    whole = f"{1 - read.longer(length):.0%} of the passages whole"
    if length >= longest and read.longer(length) > LONG_TEXTS:
        whole += ", as much as the model reads"
    elif length < min(longest, padded(read.whole(WHOLE))):
        whole += f", for want of time; {read.unread(length):.0%} of the text is never read"
    asked = query_length(facts, machine)
    yield Chosen("encoder.query_length", asked, f"{1 - facts.query_tokens.longer(asked):.0%} of the queries whole")
    yield Chosen("encoder.passage_length", length, whole)
    yield Chosen("untouched.passage_length", None, "the base model reads all that it can")
    yield Chosen("train_cross_encoder.max_length", wish.pair_length, "query and passage, at most 256")
    if base.pair.teacher is not None:
        yield Chosen("pair.teacher.max_length", wish.pair_length, "as train_cross_encoder.max_length")
    yield Chosen("dual_cross.max_length", wish.pair_length, "as train_cross_encoder.max_length")
    yield Chosen("dual_cross.generator.passage_length", length, "as encoder.passage_length")
    yield Chosen("dual_cross.generator.query_length", asked, "as encoder.query_length")


def _training(section: str, n: int, batch: int, wanted: int, chunk: int, why: str) -> Iterator[Chosen]:
    passes, steps = _passes(n, batch, wanted)
    yield Chosen(f"{section}.epochs", passes, f"{steps} steps; {why}")
    yield Chosen(f"{section}.batch_size", batch, f"queries, of {n:,}")
    yield Chosen(f"{section}.chunk_size", chunk, "texts at a time, by their length and the memory")


def _candidates(wish: Wish, base: Params, facts: Facts) -> Iterator[Chosen]:
    depth = max(2, min(100, facts.passages // 2))
    last = max(2, min(50, depth))
    yield Chosen("bm25.depth", min(50, facts.passages), "candidates per query")
    yield Chosen("mine_candidates.depth", depth, f"of {facts.passages:,} passages")
    if base.train_cross_encoder.range_min >= last:
        yield Chosen("train_cross_encoder.range_min", last - 1, "of so few passages")
    yield Chosen("train_cross_encoder.range_max", last, "end of the ranks that its negatives come from")
    if base.pair.depth > depth:
        yield Chosen("pair.depth", depth, "of so few passages")
    yield Chosen("denoise.range_min", 0, "the teacher tells which of the top are relevant though not labelled")
    yield Chosen("denoise.range_max", last, "below stand easy ones")
    yield Chosen("denoise.candidates", min(wish.candidates, last), "scored by M_ce; this sets its time")


def _graph(wish: Wish, base: Params, n: int, facts: Facts, chunk: int) -> Iterator[Chosen]:
    rounds = max(2, min(MOST_FOLDS, n // FOLD))
    beta = round(1 / rounds, 3)
    batch = max(2, min(GNN_BATCH, n // rounds))
    each = rounds * max(1, round(n / rounds / batch))
    passes = max(1, ceil(ABOUT * wish.gnn_steps / each))
    steps = passes * each
    asking = facts.nodes(base.build_graph.unlabelled) * wish.k / facts.passages
    yield Chosen("build_graph.k", wish.k, f"passages per query, {asking:.1f} queries per passage")
    repeats = facts.queries_a_labelled_passage
    yield Chosen("build_graph.labelled", True, f"a labelled passage has {repeats:.1f} training queries")
    dearer = "M_ce's, as in the paper"
    cheaper = "as good as a briefly trained M_ce's, and cost nothing"
    yield Chosen("mgt.edge_features", wish.edge_features, dearer if wish.edge_features == "cross_encoder" else cheaper)
    yield Chosen("mgt.beta", beta, f"{rounds} folds of about {n // rounds} queries")
    yield Chosen("mgt.gnn_epochs", passes, f"{steps} steps, {'60 to 100' if n < 1000 else 'about 100'} are wanted")
    yield Chosen("mgt.epochs", 0, "no joint training: half a point at most, for many times the GNN's minutes")
    yield Chosen("mgt.batch_size", batch, "a fold, up to 128")
    rate = 1.0e-3 if n >= 2000 else 5.0e-4
    yield Chosen("mgt.gnn_learning_rate", rate, "5e-4 for small batches" if n < 2000 else "1e-3 for batches of 128")
    yield Chosen("mgt.chunk_size", chunk, "as train_dual_encoder.chunk_size")
    every = max(1, round(steps / EVALUATIONS))
    yield Chosen("mgt.evaluate_every", every, "a tenth of the steps")
    yield Chosen("mgt.patience", wish.patience, f"evaluations: after {wish.patience * every} steps in vain it stops")


def batch_size(n: int) -> int:
    """Queries of a contrastive batch: 64, or fewer where 64 would leave few steps a pass."""
    return 64 if n >= 2000 else max(2, min(32, n // 4))


def _passes(n: int, batch: int, wanted: int) -> tuple[float, int]:
    """The passes over the queries that make the steps wanted, part of one if there are many, and the steps."""
    each = max(1, round(n / batch))
    passes = min(MOST_PASSES, ceil(100 * wanted / each) / 100)
    return int(passes) if passes == int(passes) else passes, steps_of(passes, each)


def _chunk(wish: Wish, base: Params, machine: Machine) -> int:
    """A power of two of texts: within CHUNK_TOKENS, and in half of the memory."""
    size, length, trained = 8, wish.passage_length, machine.model.layers - base.encoder.frozen_layers
    while (
        size < 128
        and 2 * size * length <= CHUNK_TOKENS
        and training_memory(2 * size, length, machine, trained) <= machine.memory / 2
    ):
        size *= 2
    return size


def _is_fixed(name: str, fixed: Collection[str]) -> bool:
    return any(name == one or name.startswith(f"{one}.") or one.startswith(f"{name}.") for one in fixed)


def _applied(base: Params, values: Iterable[Chosen]) -> Params:
    """The experiment with chosen values. They are not checked: init checks what it writes."""
    found = base
    for one in values:
        found = _with(found, one.name.split("."), one.value)
    return found


def _with(section: Any, keys: list[str], value: Any) -> Any:
    if len(keys) == 1:
        return section.model_copy(update={keys[0]: value})
    inner = getattr(section, keys[0])
    if inner is None:  # an optional section that the experiment leaves out
        return section
    return section.model_copy(update={keys[0]: _with(inner, keys[1:], value)})
