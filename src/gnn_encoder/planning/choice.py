"""Parameters that fit data, machine and time: first what quality asks for, then concessions until it ends in time.

The heuristics are what short runs on InsuranceQA and XQuAD showed. Concessions are ordered by what they cost in
quality: edge features by M_ce gain nothing over products while M_ce trains for minutes, then come steps beyond the
first hundred, and lengths that cut texts come last, since what is not read cannot be found: on XQuAD M_de that reads
56% of the text is five points below the untouched model that reads all, and training gains two.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Literal

from gnn_encoder.encoding.tokens import padded
from gnn_encoder.pipeline.declared import Declared
from gnn_encoder.pipeline.experiment import Change
from gnn_encoder.pipeline.params import Params
from gnn_encoder.planning.facts import Facts
from gnn_encoder.planning.machine import Machine
from gnn_encoder.planning.plan import CUT, LONG_TEXTS, Plan, plan
from gnn_encoder.planning.stages import Setting
from gnn_encoder.training.examples import steps_of

WHOLE, WHOLE_QUERIES = 0.95, 0.99  # share of the passages, and of the queries, that are read whole
PAIR_TOKENS = 256  # most tokens of a pair
FOLD = 24  # fewest queries of a round of Masked Graph Training
MOST_FOLDS = 30  # beta of the paper: 5%, 20 folds; more make more steps of a pass
GNN_BATCH = 128
EVALUATIONS = 10  # of the GNN's training, and of its control's
TEACHER_BATCH, TEACHER_NEGATIVES = 16, 2
CHUNK_TOKENS = 32_768  # padded tokens that are encoded with gradient at a time
ABOUT = 0.8  # of the GNN's steps wanted are enough: its passes are whole
MOST_PASSES = 10  # over the queries in one training: further ones learn few queries by heart

Concession = tuple[str, Any]
Chosen = tuple[str, Any, str]  # a parameter, its value, and why
# What quality hardly feels, the least harmful first.
HARMLESS: list[Concession] = [
    ("edge_features", "product"),
    ("patience", 4),  # the control of a small set gains nothing, and would take longer than all else
    *(("encoder_steps", 200), ("teacher_steps", 150), ("candidates", 8), ("k", 12), ("retriever_steps", 100)),
    *(("encoder_steps", 100), ("teacher_steps", 90), ("retriever_steps", 50), ("candidates", 6), ("gnn_steps", 60)),
    *(("candidates", 4), ("pair_length", 128), ("teacher_steps", 45), ("encoder_steps", 60), ("retriever_steps", 20)),
    *(("encoder_steps", 32), ("patience", 2), ("teacher_steps", 25)),
]


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What time is spent on; every other choice follows from these and the data."""

    passage_length: int
    train_queries: int
    retriever_steps: int = 200
    encoder_steps: int = 400
    teacher_steps: int = 300
    pair_length: int
    candidates: int = 16
    k: int
    gnn_steps: int = 100
    patience: int = EVALUATIONS
    edge_features: Literal["cross_encoder", "product"] = "cross_encoder"


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Chosen values, and what they will cost."""

    values: list[Change]
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
    stages: list[Declared],
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

    def sampled(wish: Wish) -> Facts:
        return facts.sampled(wish.train_queries, base.pair.unlabelled_fraction)

    def values(wish: Wish) -> list[Change]:
        found = _values(wish, base, sampled(wish), machine, minutes)
        mine = (one for one in found if not any(f"{one[0]}.".startswith(f"{name}.") for name in fixed))
        return [Change(name, value, why=why) for name, value, why in mine]

    def planned(wish: Wish) -> Plan:
        return plan(_with(base, values(wish)), sampled(wish), machine, stages)

    wish = best(facts, machine.model.tokens)
    if minutes is not None:
        # A small set does not repay all the time allowed: for it, harmless concessions are made all the same.
        wish = concede(wish, HARMLESS, lambda one: planned(one).minutes, min(minutes, enough(facts)))
        wish = concede(wish, harmful(facts), lambda one: planned(one).minutes, minutes)
    return Choice(values=values(wish), plan=planned(wish), minutes=minutes)


def best(facts: Facts, longest: int) -> Wish:
    """What quality asks for, with a model that reads `longest` tokens."""
    length = min(longest, padded(facts.passage_tokens.whole(WHOLE)))
    pair = min(longest, PAIR_TOKENS, query_length(facts, longest) + length)
    k = max(1, min(25, facts.passages // 20))
    return Wish(passage_length=length, train_queries=facts.train, pair_length=pair, k=k)


def query_length(facts: Facts, longest: int) -> int:
    """Tokens of a query: nearly all whole, since they are short."""
    return min(longest, max(16, padded(facts.query_tokens.whole(WHOLE_QUERIES))))


def enough(facts: Facts) -> float:
    """Minutes that a set is worth: 3.5 for some hundred passages, which the untouched model already ranks well."""
    return max(3.5, facts.passages / 200, facts.train / 400)


def harmful(facts: Facts) -> list[Concession]:
    """What quality feels, the least harmful first. Passages are never cut so far that the plan warns of it."""
    halves = [facts.train // 2**n for n in range(1, 12)]
    lengths = [one for one in (192, 160, 128, 96, 80, 64, 48) if facts.passage_tokens.unread(one) <= CUT]
    return [
        ("pair_length", 96),
        *(("train_queries", half) for half in halves if half > 3000),
        *(("train_queries", 3000), ("pair_length", 64), ("encoder_steps", 20), ("train_queries", 2000)),
        *(("pair_length", 48), ("gnn_steps", 40), ("train_queries", 1000)),
        *(("passage_length", one) for one in lengths),
    ]


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
    n, chunk = wish.train_queries, _chunk(wish, base, facts, machine)
    limited = minutes is not None and n < facts.available
    why = f"of {facts.available:,}: more do not fit into {minutes:g} minutes" if limited else f"all {facts.available:,}"
    yield "data.train_queries", n if limited else None, why
    yield from _lengths(wish, base, facts, machine.model.tokens)
    batch = 64 if n >= 2000 else max(2, min(32, n // 4))  # fewer where 64 would leave few steps a pass
    for section, steps, why in (
        ("train_retriever", wish.retriever_steps, "finds candidates"),
        ("train_dual_encoder", wish.encoder_steps, "about 100 or more are wanted"),
    ):
        passes, taken = _passes(n, batch, steps)
        yield f"{section}.epochs", passes, f"{taken} steps; {why}"
        yield f"{section}.batch_size", batch, f"queries, of {n:,}"
    for section in ("train_retriever", "train_dual_encoder", "mgt", *TWO_STAGES):
        yield f"{section}.chunk_size", chunk, "texts at a time, by their length and the memory"
    yield from _candidates(wish, base, facts)
    passes, taken = _passes(n, TEACHER_BATCH, wish.teacher_steps)
    yield "train_cross_encoder.epochs", passes, f"{taken} steps"
    yield "train_cross_encoder.batch_size", min(TEACHER_BATCH, max(2, n // 2)), "queries"
    yield "train_cross_encoder.negatives", TEACHER_NEGATIVES, "candidates per query"
    yield from _graph(wish, base, facts)


TWO_STAGES = ("pair.pretrain", "pair.finetune", "dual_cross.pretrain", "dual_cross.finetune")


def _lengths(wish: Wish, base: Params, facts: Facts, longest: int) -> Iterator[Chosen]:
    read, length, asked = facts.passage_tokens, wish.passage_length, query_length(facts, longest)
    whole = f"{1 - read.longer(length):.0%} of the passages whole"
    if length >= longest and read.longer(length) > LONG_TEXTS:
        whole += ", as much as the model reads"
    elif length < min(longest, padded(read.whole(WHOLE))):
        whole += f", for want of time; {read.unread(length):.0%} of the text is never read"
    yield "encoder.query_length", asked, f"{1 - facts.query_tokens.longer(asked):.0%} of the queries whole"
    yield "encoder.passage_length", length, whole
    yield "untouched.passage_length", None, "the base model reads all that it can"
    yield "train_cross_encoder.max_length", wish.pair_length, "query and passage, at most 256"
    if base.pair.teacher is not None:
        yield "pair.teacher.max_length", wish.pair_length, "as train_cross_encoder.max_length"
    yield "dual_cross.max_length", wish.pair_length, "as train_cross_encoder.max_length"
    yield "dual_cross.generator.passage_length", length, "as encoder.passage_length"
    yield "dual_cross.generator.query_length", asked, "as encoder.query_length"


def _candidates(wish: Wish, base: Params, facts: Facts) -> Iterator[Chosen]:
    depth = max(2, min(100, facts.passages // 2))
    last = max(2, min(50, depth))
    yield "bm25.depth", min(50, facts.passages), "candidates per query"
    yield "mine_candidates.depth", depth, f"of {facts.passages:,} passages"
    yield "train_cross_encoder.range_min", min(base.train_cross_encoder.range_min, last - 1), "first rank of them"
    yield "train_cross_encoder.range_max", last, "end of the ranks that its negatives come from"
    yield "pair.depth", min(base.pair.depth, depth), "candidates per query"
    yield "denoise.range_min", 0, "the teacher tells which of the top are relevant though not labelled"
    yield "denoise.range_max", last, "below stand easy ones"
    yield "denoise.candidates", min(wish.candidates, last), "scored by M_ce; this sets its time"


def _graph(wish: Wish, base: Params, facts: Facts) -> Iterator[Chosen]:
    n = wish.train_queries
    rounds = max(2, min(MOST_FOLDS, n // FOLD))
    batch = max(2, min(GNN_BATCH, n // rounds))
    each = rounds * max(1, round(n / rounds / batch))
    passes = max(1, ceil(ABOUT * wish.gnn_steps / each))
    every = max(1, round(passes * each / EVALUATIONS))
    asking = facts.nodes(base.build_graph.unlabelled) * wish.k / facts.passages
    dear, few = wish.edge_features == "cross_encoder", n < 2000
    cost = "M_ce's, as in the paper" if dear else "as good as a briefly trained M_ce's, and cost nothing"
    yield "build_graph.k", wish.k, f"passages per query, {asking:.1f} queries per passage"
    yield "build_graph.labelled", True, f"a labelled passage has {facts.queries_a_label:.1f} training queries"
    yield "mgt.edge_features", wish.edge_features, cost
    yield "mgt.beta", round(1 / rounds, 3), f"{rounds} folds of about {n // rounds} queries"
    yield "mgt.gnn_epochs", passes, f"{passes * each} steps, {'60 to' if n < 1000 else 'about'} 100 are wanted"
    yield "mgt.epochs", 0, "no joint training: half a point at most, for many times the GNN's minutes"
    yield "mgt.batch_size", batch, "a fold, up to 128"
    yield "mgt.gnn_learning_rate", 5e-4 if few else 1e-3, f"for {'small batches' if few else 'batches of 128'}"
    yield "mgt.evaluate_every", every, "a tenth of the steps"
    yield "mgt.patience", wish.patience, f"evaluations: after {wish.patience * every} steps in vain it stops"


def _passes(n: int, batch: int, wanted: int) -> tuple[float, int]:
    """The passes over the queries that make the steps wanted, part of one if there are many, and the steps."""
    each = max(1, round(n / batch))
    passes = min(MOST_PASSES, ceil(100 * wanted / each) / 100)
    return int(passes) if passes == int(passes) else passes, steps_of(passes, each)


def _chunk(wish: Wish, base: Params, facts: Facts, machine: Machine) -> int:
    """A power of two of texts: within CHUNK_TOKENS, and in half of the memory."""
    size, length, at = 8, wish.passage_length, Setting(base, facts, machine)
    layers = machine.model.layers - base.encoder.frozen_layers
    while size < 128 and 2 * size * length <= CHUNK_TOKENS:
        if at.training(2 * size, length, layers).memory > machine.memory / 2:
            break
        size *= 2
    return size


def _with(base: Params, values: list[Change]) -> Params:
    """The experiment with chosen values. They are not checked: init checks what it writes."""
    for one in values:
        *outer, name = one.name.split(".")
        sections = [base]
        for key in outer:
            sections.append(getattr(sections[-1], key))
        changed: Any = one.value
        for section, key in zip(reversed(sections), reversed([*outer, name]), strict=True):
            changed = section.model_copy(update={key: changed})
        base = changed
    return base
