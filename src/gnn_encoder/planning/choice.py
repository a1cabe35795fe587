"""Parameters that fit data, machine and time: first what quality asks for, then concessions until it ends in time.

The rules are what short runs on InsuranceQA and XQuAD showed. What is cut first is passes of training: edge features by
M_ce gain nothing over products, and steps beyond the first hundred gain little. Labels come late, since the graph and
the baselines gain with each. Lengths that cut texts come last, since what is not read cannot be found.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Literal

from gnn_encoder.encoding.tokens import padded
from gnn_encoder.mgt.masking import fold_count
from gnn_encoder.pipeline.declared import Declared
from gnn_encoder.pipeline.experiment import Change
from gnn_encoder.pipeline.params import Params
from gnn_encoder.planning.facts import Facts
from gnn_encoder.planning.machine import Machine
from gnn_encoder.planning.plan import CUT, LONG_TEXTS, Plan, plan
from gnn_encoder.training.examples import steps_of

WHOLE, WHOLE_QUERIES = 0.95, 0.99  # share of the passages, and of the queries, that are read whole
PAIR_TOKENS = 256  # most tokens of a pair
FOLD = 24  # fewest queries of a round of Masked Graph Training
MOST_FOLDS = 30  # beta of the paper: 5%, 20 folds; more make more steps of a pass
GNN_BATCH = 128
TEACHER_BATCH, TEACHER_NEGATIVES = 16, 2
CHUNK_TOKENS = 32_768  # padded tokens that are encoded with gradient at a time
ABOUT = 0.8  # of the GNN's steps wanted are enough: its passes are whole
MOST_PASSES = 10  # over the queries in one training: further ones learn few queries by heart

Chosen = tuple[str, Any, str]  # a parameter, its value, and why
Concession = tuple[str, Any]  # a field of `Wish`, and the lower value
# What time is taken from: first what quality hardly feels. Halved training queries and shorter passages come after it.
ORDER: list[Concession] = [
    ("edge_features", "product"),
    ("evaluations", 5),
    *(("encoder_steps", 200), ("teacher_steps", 150), ("candidates", 8), ("k", 12), ("retriever_steps", 100)),
    *(("encoder_steps", 100), ("teacher_steps", 90), ("retriever_steps", 50), ("candidates", 6), ("gnn_steps", 60)),
    *(("candidates", 4), ("pair_length", 128), ("teacher_steps", 45), ("encoder_steps", 60), ("retriever_steps", 20)),
    *(("encoder_steps", 32), ("evaluations", 3), ("teacher_steps", 25)),
    *(("pair_length", 96), ("encoder_steps", 20), ("gnn_steps", 40), ("pair_length", 64)),
]
FEWEST_QUERIES = 1000  # to which training queries are cut
LENGTHS = (192, 160, 128, 96, 80, 64, 48)  # to which passages are cut, unless a plan warns of it
# Parameters of which a field of `Wish` is the value; where the user has set one, no concession changes it.
SET_BY = {
    "data.train_queries": "train_queries",
    "encoder.passage_length": "passage_length",
    "train_cross_encoder.max_length": "pair_length",
    "denoise.candidates": "candidates",
    "build_graph.k": "k",
    "mgt.edge_features": "edge_features",
}
OTHER_BRANCHES = ("pair", "dual_cross")  # sections that the main branch does not read


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
    evaluations: int = 10  # of the GNN's training, and of its control's
    edge_features: Literal["cross_encoder", "product", "none"] = "cross_encoder"


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


def best(facts: Facts, longest: int) -> Wish:
    """What quality asks for, with a model that reads `longest` tokens."""
    length = min(longest, padded(facts.passage_tokens.whole(WHOLE)))
    pair = min(longest, PAIR_TOKENS, query_length(facts, longest) + length)
    k = max(1, min(25, facts.passages // 20))
    return Wish(passage_length=length, train_queries=facts.train, pair_length=pair, k=k)


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
        wish, made = self._wanted(), list[Concession]()
        if self.minutes is not None:
            for name, value in self._order():
                if self._plan(wish).minutes <= self.minutes:
                    break
                before = getattr(wish, name)
                if isinstance(value, str) or value < before:
                    made.append((name, before))
                    wish = replace(wish, **{name: value})
            for name, before in reversed(made):
                richer = replace(wish, **{name: before})
                if self._plan(richer).minutes <= self.minutes:
                    wish = richer
        return Choice(values=self._changes(wish), plan=self._plan(wish), minutes=self.minutes)

    def _wanted(self) -> Wish:
        """The best, with what the user has set."""
        wish = best(self.facts, self.machine.tokens)
        own = {field: self.base.value(name) for name, field in SET_BY.items() if self._is_fixed(name)}
        return replace(wish, **own | {"train_queries": self.facts.train})

    def _order(self) -> Iterator[Concession]:
        halves = [half for n in range(1, 20) if (half := self.facts.train // 2**n) > FEWEST_QUERIES]
        lengths = [one for one in LENGTHS if self.facts.passage_tokens.unread(one) <= CUT]
        order = [*ORDER, *(("train_queries", n) for n in (*halves, FEWEST_QUERIES)), ("pair_length", 48)]
        fixed = {field for name, field in SET_BY.items() if self._is_fixed(name)}
        return (one for one in [*order, *(("passage_length", n) for n in lengths)] if one[0] not in fixed)

    def _is_fixed(self, name: str) -> bool:
        return any(f"{name}.".startswith(f"{one}.") for one in self.fixed)

    def _own(self, name: str, value: Any) -> Any:
        """The value of the user's, or else the chosen one."""
        return self.base.value(name) if self._is_fixed(name) else value

    def _sampled(self, wish: Wish) -> Facts:
        return self.facts.sampled(wish.train_queries, self.base.pair.unlabelled_fraction)

    def _plan(self, wish: Wish) -> Plan:
        return plan(_with(self.base, self._changes(wish)), self._sampled(wish), self.machine, self.stages)

    # --- values -------------------------------------------------------------------------------------------------------

    def _changes(self, wish: Wish) -> list[Change]:
        found = (*self._data(wish), *self._training(wish), *self._candidates(wish), *self._graph(wish))
        every = (*found, *self._other_branches(wish))
        return [Change(name, value, why=why) for name, value, why in every if not self._is_fixed(name)]

    def _data(self, wish: Wish) -> Iterator[Chosen]:
        facts, longest, n, length = self.facts, self.machine.tokens, wish.train_queries, wish.passage_length
        limited = n < facts.available and self.minutes is not None
        why = f"of {facts.available:,}, as many as fit into {self.minutes:g} minutes" if limited else f"all {n:,}"
        yield "data.train_queries", n if limited else None, why
        read, asked = facts.passage_tokens, query_length(facts, longest)
        whole = f"{1 - read.longer(length):.0%} of the passages are read whole"
        if length >= longest and read.longer(length) > LONG_TEXTS:
            whole += ", the model reads no more"
        elif length < min(longest, padded(read.whole(WHOLE))):
            whole += f", for want of time; {read.unread(length):.0%} of the text is never read"
        share = f"{1 - facts.query_tokens.longer(asked):.0%} of the queries are read whole"
        yield "encoder.query_length", asked, share
        yield "encoder.passage_length", length, whole
        yield "untouched.passage_length", None, "the base model reads all that it can"
        yield "train_cross_encoder.max_length", wish.pair_length, "tokens of a query and a passage together"

    def _training(self, wish: Wish) -> Iterator[Chosen]:
        n, chunk = wish.train_queries, self._chunk(wish)
        fitting = 64 if n >= 2000 else max(2, min(32, n // 4))  # fewer where 64 would leave few steps a pass
        for section, wanted, fewer, goal in (
            ("train_retriever", wish.retriever_steps, fitting, ""),
            ("train_dual_encoder", wish.encoder_steps, fitting, "; 100 or more are wanted"),
            ("train_cross_encoder", wish.teacher_steps, min(TEACHER_BATCH, max(2, n // 2)), ""),
        ):
            batch = self._own(f"{section}.batch_size", fewer)
            passes, taken = _passes(n, batch, wanted)
            yield f"{section}.epochs", passes, f"{taken} steps{goal}"
            yield f"{section}.batch_size", batch, "queries of a step"
        yield "train_cross_encoder.negatives", TEACHER_NEGATIVES, "passages beside a relevant one"
        for section in ("train_retriever", "train_dual_encoder", "mgt"):
            yield f"{section}.chunk_size", chunk, "texts that are encoded at a time, as memory allows"

    def _candidates(self, wish: Wish) -> Iterator[Chosen]:
        passages, first = self.facts.passages, self.base.train_cross_encoder.range_min
        depth = self._own("mine_candidates.depth", max(2, min(100, passages // 2)))
        last = max(2, min(50, depth))
        yield "bm25.depth", min(50, passages), "candidates for each training query"
        yield "mine_candidates.depth", depth, "candidates for each training query"
        yield "pair.depth", min(self.base.pair.depth, depth), "at most mine_candidates.depth"
        yield "train_cross_encoder.range_min", min(first, last - 1), "rank from which its negatives are taken"
        yield "train_cross_encoder.range_max", last, "rank before which they end"
        yield "denoise.range_min", 0, "rank from which M_ce looks for relevant passages without a label"
        yield "denoise.range_max", last, "rank before which it ends"
        yield "denoise.candidates", min(wish.candidates, last), "for each query; M_ce reads them, which takes time"

    def _graph(self, wish: Wish) -> Iterator[Chosen]:
        n, facts = wish.train_queries, self._sampled(wish)
        rounds = fold_count(self._own("mgt.beta", 1 / max(2, min(MOST_FOLDS, n // FOLD))))
        batch = self._own("mgt.batch_size", max(2, min(GNN_BATCH, n // rounds)))
        each = rounds * max(1, round(n / rounds / batch))
        passes = self._own("mgt.gnn_epochs", max(1, ceil(ABOUT * wish.gnn_steps / each)))
        every = self._own("mgt.evaluate_every", max(1, round(passes * each / wish.evaluations)))
        asking = facts.nodes(self.base.build_graph.unlabelled) * wish.k / facts.passages
        dear, few = wish.edge_features == "cross_encoder", n < 2000
        features = "M_ce's, as in the paper" if dear else "needs no M_ce, and is as good as one that trains briefly"
        goal = "60 to 100" if n < 1000 else "about 100"
        yield "build_graph.k", wish.k, f"passages per query; {asking:.1f} queries per passage"
        labels = f"labels are edges too; a labelled passage has {facts.queries_a_label:.1f} training queries"
        yield "build_graph.labelled", True, labels
        yield "mgt.edge_features", wish.edge_features, features
        yield "mgt.beta", round(1 / rounds, 3), f"{rounds} folds of about {n // rounds} queries"
        yield "mgt.gnn_epochs", passes, f"{passes * each} steps; {goal} are wanted"
        yield "mgt.epochs", 0, "no joint training: it takes many times as long for half a point"
        yield "mgt.batch_size", batch, "queries of a step, at most a fold"
        yield "mgt.gnn_learning_rate", 5e-4 if few else 1e-3, f"for {'few' if few else 'many'} queries"
        yield "mgt.evaluate_every", every, f"steps, of {passes * each}"
        yield "mgt.patience", wish.evaluations, "evaluations: it does not stop early"

    def _other_branches(self, wish: Wish) -> Iterator[Chosen]:
        """What PAIR and Dual-Cross-Encoder need, so that they fit the same data."""
        why, asked = "as in the main branch", query_length(self.facts, self.machine.tokens)
        if self.base.pair.teacher is not None:
            yield "pair.teacher.max_length", wish.pair_length, why
        yield "dual_cross.max_length", wish.pair_length, why
        yield "dual_cross.generator.passage_length", wish.passage_length, why
        yield "dual_cross.generator.query_length", self._own("encoder.query_length", asked), why
        for section in ("pair.pretrain", "pair.finetune", "dual_cross.pretrain", "dual_cross.finetune"):
            yield f"{section}.chunk_size", self._chunk(wish), why

    def _chunk(self, wish: Wish) -> int:
        """A power of two of texts: within CHUNK_TOKENS, and with activations in half of the memory.

        A layer keeps about 17 vectors a token and 2.5 attention maps, in float32 (half of what Korthikanti et al. 2022,
        arXiv:2205.05198, count in bytes for 2 bytes a number).
        """
        size, length, at = 8, wish.passage_length, self.machine
        layers = max(1, at.layers - self.base.encoder.frozen_layers)
        text = 4 * layers * length * (17 * at.dimension + 2.5 * at.heads * length)
        while size < 128 and 2 * size * length <= CHUNK_TOKENS and 2 * size * text <= at.memory / 2:
            size *= 2
        return size


def _passes(n: int, batch: int, wanted: int) -> tuple[float, int]:
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
