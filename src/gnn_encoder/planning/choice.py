"""Parameters that fit data, machine and time: first what quality asks for, then concessions until it ends in time.

The rules are what short runs on InsuranceQA and XQuAD showed. What is cut first is passes of training: edge features by
M_ce gain nothing over products, and steps beyond the first hundred gain little. Labels are never cut: the graph and the
baselines gain with each, and what each costs is the scoring of its candidates: M_ce scores those of the queries that
M_de's steps read. Lengths that cut texts come last, since what is not read cannot be found.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any

from gnn_encoder.evaluation.measures import cutoff
from gnn_encoder.mgt.masking import fold_count
from gnn_encoder.pipeline.experiment import Change
from gnn_encoder.pipeline.params import Params
from gnn_encoder.pipeline.stage import Declared
from gnn_encoder.planning.facts import Facts
from gnn_encoder.planning.machine import Machine
from gnn_encoder.planning.plan import Plan, plan
from gnn_encoder.text.batches import padded
from gnn_encoder.training.examples import steps_of

WHOLE, WHOLE_QUERIES = 0.95, 0.99  # share of the passages, and of the queries, that are read whole
LONG_TEXTS = 0.03  # share of texts longer than the model reads from which cutting them is suggested
CUT = 0.05  # share of a kind of token that may go unread before a plan warns
PAIR_TOKENS = 256  # most tokens of a pair
FOLD = 24  # fewest queries of a round of Masked Graph Training
MOST_FOLDS = 30  # beta of the paper: 5%, 20 folds; more make more steps of a pass
# Queries of a step: of the GNN alone; where E_Q trains too; of what encodes passages to train.
MGT_BATCH, QUERY_BATCH, BATCH = 1024, 160, 64
TEACHER_BATCH, TEACHER_NEGATIVES = 16, 2
CHUNK_TOKENS = 32_768  # padded tokens that are encoded with gradient at a time
ABOUT = 0.8  # of the GNN's steps wanted are enough: its passes are whole
MOST_PASSES = 10  # over the queries in one training: further ones learn few queries by heart
FEWEST_SCORED = 1000  # training queries whose candidates M_ce scores, if there are so many
LENGTHS = (192, 160, 128, 96, 80, 64, 48)  # to which passages are cut, unless a plan warns of it

# What time is spent on; every other choice follows from it and the data. It names parameters, and steps of trainings.
Wish = dict[str, Any]
Concession = tuple[str, Any]  # a name of the wish, and the lower value
M_CE, M_DE, DPR = "train_cross_encoder", "train_dual_encoder", "train_retriever"
PAIR, CANDIDATES, K = f"{M_CE}.max_length", "denoise.candidates", "build_graph.k"
SCORED, LENGTH, FEATURES = "denoise.queries", "encoder.passage_length", "mgt.edge_features"
DEPTH, SHALLOW = "retrieve.depth", 100
# What time is taken from: first what quality hardly feels. In short runs M_ce is dear and changes M_de little. A step
# of the first retriever costs least, since M_ce scores nothing for it.
CONCESSIONS: list[Concession] = [
    *((FEATURES, "product"), ("evaluations", 5), (DEPTH, SHALLOW), (f"steps.{M_CE}", 150), (CANDIDATES, 8), (K, 12)),
    *((f"steps.{M_DE}", 200), (CANDIDATES, 6), (f"steps.{M_CE}", 90), (CANDIDATES, 4), (PAIR, 128)),
    *((f"steps.{M_CE}", 45), (f"steps.{M_DE}", 100), (PAIR, 96), (f"steps.{M_CE}", 25), (f"steps.{DPR}", 200)),
    *((f"steps.{M_DE}", 60), ("evaluations", 3), (PAIR, 64), (f"steps.{M_DE}", 32), (f"steps.{DPR}", 100)),
    *(("steps.joint", 60), ("steps.mgt", 60), (f"steps.{DPR}", 50), ("steps.joint", 30), (PAIR, 48)),
    *((f"steps.{M_DE}", 20), (f"steps.{DPR}", 20), ("steps.joint", 0), ("steps.mgt", 40)),
]


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Chosen values, and what they will cost."""

    values: list[Change]
    plan: Plan


def best(facts: Facts, longest: int, depth: int) -> Wish:
    """What quality asks for, with a model that reads `longest` tokens, and runs of `depth` passages a query."""
    length = min(longest, padded(facts.passage_tokens.whole(WHOLE)))
    return {
        LENGTH: length,
        PAIR: min(longest, PAIR_TOKENS, query_length(facts, longest) + length),
        CANDIDATES: 16,
        K: max(1, min(25, facts.passages // 20)),
        DEPTH: depth,
        FEATURES: "cross_encoder",
        "evaluations": 10,  # of the GNN's training, and of its control's
        "steps.mgt": 100,
        "steps.joint": 120,
        f"steps.{DPR}": 400,
        f"steps.{M_DE}": 400,
        f"steps.{M_CE}": 300,
    }


def query_length(facts: Facts, longest: int) -> int:
    """Tokens of a query: nearly all whole, since they are short."""
    return min(longest, max(16, padded(facts.query_tokens.whole(WHOLE_QUERIES))))


@dataclass(frozen=True, kw_only=True)
class Chooser:
    """Chooses what fits.

    Attributes:
        base: the experiment whose other values stay.
        stages: those of the main branch.
        minutes: the time that the main branch may take; None: any.
        fixed: dotted names of what the user has set in `base`; it is planned with as it is.
    """

    base: Params
    facts: Facts
    machine: Machine
    stages: list[Declared]
    minutes: float | None
    fixed: Collection[str] = ()

    def choose(self) -> Choice:
        """Concede until it fits, then take back those concessions that turn out not to be needed."""
        wanted = best(self.facts, self.machine.tokens, self.base.retrieve.depth)
        wish, made = {name: self._own(name, value) for name, value in wanted.items()}, list[Concession]()
        for name, value in self._order():
            if self._fits(wish):
                break
            before = wish[name]
            if not self._is_fixed(name) and (isinstance(value, str) or value < before):
                made.append((name, before))
                wish = wish | {name: value}
        for name, before in reversed(made):
            if self._fits(richer := wish | {name: before}):
                wish = richer
        return Choice(values=self._changes(wish), plan=self._plan(wish))

    def _order(self) -> list[Concession]:
        shorter = [(LENGTH, one) for one in LENGTHS if self.facts.passage_tokens.unread(one) <= CUT]
        return [*CONCESSIONS, *shorter]

    def _fits(self, wish: Wish) -> bool:
        return self.minutes is None or self._plan(wish).minutes <= self.minutes

    def _is_fixed(self, name: str) -> bool:
        return any(f"{name}.".startswith(f"{one}.") for one in self.fixed)

    def _own(self, name: str, value: Any) -> Any:
        """The value of the user's, or else the chosen one."""
        return self.base.value(name) if self._is_fixed(name) else value

    def _plan(self, wish: Wish) -> Plan:
        return plan(_with(self.base, self._changes(wish)), self.facts, self.machine, self.stages)

    def _scored(self, wish: Wish) -> int | None:
        """Training queries whose candidates M_ce scores: those that M_de reads in one pass; None: all."""
        n, batch = self.facts.train, self._own(f"{M_DE}.batch_size", fitting(self.facts.train))
        read = n if self._is_fixed(f"{M_DE}.epochs") else max(FEWEST_SCORED, wish[f"steps.{M_DE}"] * batch)
        scored: int | None = self._own(SCORED, read)
        return None if scored is None or scored >= n else scored

    # --- values -------------------------------------------------------------------------------------------------------

    def _changes(self, wish: Wish) -> list[Change]:
        parts = (self._data, self._training, self._candidates, self._graph, self._judging, self._other_branches)
        return [one for part in parts for one in part(wish) if not self._is_fixed(one.name)]

    def _data(self, wish: Wish) -> Iterator[Change]:
        facts, longest, length = self.facts, self.machine.tokens, wish[LENGTH]
        yield Change("data.train_queries", None, f"all {facts.train:,}")
        for name, size, tokens in (
            ("encoder.query_length", query_length(facts, longest), facts.query_tokens),
            (LENGTH, length, facts.passage_tokens),
        ):
            yield Change(name, size, f"{1 - tokens.longer(size):.0%} are read whole")
        yield Change(PAIR, wish[PAIR], "tokens of a query and a passage together")

    def _training(self, wish: Wish) -> Iterator[Change]:
        n, scored = self.facts.train, self._scored(wish) or self.facts.train
        trained = ((DPR, n, fitting(n)), (M_DE, scored, fitting(n)), (M_CE, n, min(TEACHER_BATCH, max(2, n // 2))))
        for section, queries, fewer in trained:
            batch = self._own(f"{section}.batch_size", fewer)
            passes, taken = _passes(queries, batch, wish[f"steps.{section}"])
            yield Change(f"{section}.epochs", passes, f"{taken} steps")
            yield Change(f"{section}.batch_size", batch, "queries of a step")
        yield Change(f"{M_CE}.negatives", TEACHER_NEGATIVES, "passages beside a relevant one")
        yield Change("encoder.chunk_size", self._chunk(wish), "passages encoded at a time, as memory allows")

    def _candidates(self, wish: Wish) -> Iterator[Change]:
        passages, first = self.facts.passages, self.base.train_cross_encoder.range_min
        depth = self._own("mine_candidates.depth", max(2, min(100, passages // 2)))
        last = max(2, min(50, depth))
        yield Change(SCORED, self._scored(wish), "training queries whose candidates M_ce scores, for M_de to train on")
        yield Change("bm25.depth", min(50, passages), "candidates for each training query")
        yield Change("mine_candidates.depth", depth, "candidates for each training query")
        yield Change(f"{M_CE}.range_min", min(first, last - 1), "rank from which its negatives are taken")
        yield Change(f"{M_CE}.range_max", last, "rank before which they end")
        yield Change("denoise.range_max", last, "rank before which it ends")
        yield Change(CANDIDATES, min(wish[CANDIDATES], last), "for each query; M_ce reads them, which takes time")

    def _graph(self, wish: Wish) -> Iterator[Change]:
        n = self.facts.train
        rounds = fold_count(self._own("mgt.beta", 1 / max(2, min(MOST_FOLDS, n // FOLD))))
        dear, few = wish[FEATURES] == "cross_encoder", n < 2000
        features = "M_ce's, as in the paper" if dear else "needs no M_ce, and is as good as one that trains briefly"
        yield Change(K, wish[K], "passages per query")
        yield Change("build_graph.labelled", True, "labels are edges too")
        yield Change(FEATURES, wish[FEATURES], features)
        yield Change("mgt.sums", True, "how often a passage was asked for counts")
        yield Change("mgt.beta", round(1 / rounds, 3), f"{rounds} folds of about {n // rounds} queries")
        yield Change("mgt.alone.softmax", "corpus", "all passages are negatives: their vectors are cached")
        yield Change("mgt.alone.learning_rate", 5e-4 if few else 1e-3, f"for {'few' if few else 'many'} queries")
        yield Change("mgt.joint.softmax", "corpus", "E_Q learns alone: passages keep the vectors that are cached")
        yield Change("mgt.joint.dropout", 0.1, "without it E_Q learns few queries by heart")
        yield Change("mgt.joint.encoder_learning_rate", 1e-4, "for a softmax over all passages")
        yield Change("mgt.joint.gnn_learning_rate", 3e-4, "for a softmax over all passages")
        steps, evaluations = ABOUT * wish["steps.mgt"], wish["evaluations"]
        yield from self._phase("mgt.alone", MGT_BATCH, rounds, evaluations, lambda each: max(1, ceil(steps / each)))
        joint = wish["steps.joint"]
        yield from self._phase("mgt.joint", QUERY_BATCH, rounds, evaluations, lambda each: _passes(each, 1, joint)[0])
        # A step of the control costs as one of M_de, and an evaluation too. It masks no query: parts of passes will do.
        control, evaluations = min(steps, wish[f"steps.{M_DE}"]), max(1, self.base.dev.evaluations - 1)
        yield from self._phase("train_no_gnn", BATCH, rounds, evaluations, lambda each: _passes(each, 1, control)[0])

    def _phase(
        self, phase: str, most: int, rounds: int, evaluations: int, passes_of: Callable[[int], float]
    ) -> Iterator[Change]:
        """Batches, passes and evaluations after the start; `passes_of` gives the passes by the steps of one."""
        n = self.facts.train
        batch = self._own(f"{phase}.batch_size", max(2, min(most, n // rounds)))
        each = rounds * max(1, round(n / rounds / batch))
        passes = self._own(f"{phase}.epochs", passes_of(each))
        steps = steps_of(passes, each)
        yield Change(f"{phase}.epochs", passes, f"{steps} steps")
        yield Change(f"{phase}.batch_size", batch, "queries of a step, at most a fold")
        yield Change(f"{phase}.evaluate_every", max(1, round(steps / evaluations)), f"steps, of {steps}")
        yield Change(f"{phase}.patience", evaluations, "evaluations: it does not stop early")

    def _judging(self, wish: Wish) -> Iterator[Change]:
        depth, measures = wish[DEPTH], self.base.evaluate.measures
        if depth < self.base.retrieve.depth:
            yield Change(DEPTH, depth, "passages of a run; longer ones take minutes to write and read")
            shown = [one for one in measures if (cutoff(one, "evaluate.measures") or 0) <= depth]
            yield Change("evaluate.measures", shown, "those that such runs show")

    def _other_branches(self, wish: Wish) -> Iterator[Change]:
        """What PAIR and Dual-Cross-Encoder need, so that they fit the same data."""
        asked = self._own("encoder.query_length", query_length(self.facts, self.machine.tokens))
        teacher = {} if self.base.pair.teacher is None else {"pair.teacher.max_length": wish[PAIR]}
        lengths = {"max_length": wish[PAIR], "generator.query_length": asked}
        same = teacher | {f"dual_cross.{name}": value for name, value in lengths.items()}
        return (Change(name, value, "as in the main branch") for name, value in same.items())

    def _chunk(self, wish: Wish) -> int:
        """A power of two of texts: within CHUNK_TOKENS, and with activations in half of the memory."""
        size, length, at = 8, wish[LENGTH], self.machine
        text = at.activations(length, self.base.encoder.frozen_layers)
        while 2 * size * length <= CHUNK_TOKENS and 2 * size * text <= at.memory / 2:
            size *= 2
        return size


def fitting(queries: int) -> int:
    """Queries of a batch: fewer than 64 where these would leave few steps a pass."""
    return 64 if queries >= 2000 else max(2, min(32, queries // 4))


def _passes(n: int, batch: int, wanted: float) -> tuple[float, int]:
    """The passes over the queries that make the steps wanted, part of one if there are many, and the steps."""
    each = max(1, round(n / batch))
    passes = min(MOST_PASSES, ceil(100 * wanted / each) / 100)
    return int(passes) if passes == int(passes) else passes, steps_of(passes, each)


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
